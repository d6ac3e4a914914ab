/* SPDX-License-Identifier: Apache-2.0
 * The physical memory below a slab, at its addresses. */
#include "shim/cuda/memory/slab_backing.h"

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/real.h"

/* ---- the memory ----------------------------------------------------------------------------- */

static uint64_t allowed[GCK_CUDA_DEVICES_MAX]; /* by device: other devices that may use its
					        * memory */
static uint64_t for_good[GCK_CUDA_DEVICES_MAX];

static CUresult create(struct gck_cuda_slab *s)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = s->device},
	};
	int rdma = 0;

	gck_cuda_real.cuDeviceGetAttribute(&rdma,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, s->device);
	prop.allocFlags.gpuDirectRDMACapable = rdma != 0;
	return gck_cuda_physical_make(&s->memory, s->size, &prop);
}

static CUmemAccessDesc all_access(CUdevice device)
{
	return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
				 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static CUresult set_access(const struct gck_cuda_slab *s)
{
	uint64_t others = s->device < GCK_CUDA_DEVICES_MAX
				  ? allowed[s->device] | for_good[s->device]
				  : 0;
	CUmemAccessDesc access[GCK_CUDA_DEVICES_MAX + 1] = {all_access(s->device)};
	size_t n = 1;

	for (CUdevice d = 0; d < GCK_CUDA_DEVICES_MAX; d++) {
		if (d != s->device && others >> d & 1)
			access[n++] = all_access(d);
	}
	return gck_cuda_real.cuMemSetAccess(s->base, s->size, access, n);
}

static CUresult map(struct gck_cuda_slab *s)
{
	CUresult rc = gck_cuda_real.cuMemMap(s->base, s->size, 0, s->memory.handle, 0);

	if (rc)
		return rc;
	rc = set_access(s);
	s->mapped = rc == CUDA_SUCCESS;
	if (rc)
		gck_cuda_real.cuMemUnmap(s->base, s->size);
	return rc;
}

CUresult gck_cuda_slab_provide(struct gck_cuda_slab *s)
{
	CUresult rc = create(s);

	if (rc)
		return rc;
	rc = gck_cuda_physical_keep(&s->memory, s->device);
	if (!rc)
		rc = map(s);
	if (rc)
		gck_cuda_physical_drop(&s->memory);
	return rc;
}

CUresult gck_cuda_slab_unmap(struct gck_cuda_slab *s)
{
	CUresult rc = s->mapped ? gck_cuda_real.cuMemUnmap(s->base, s->size) : CUDA_SUCCESS;

	if (rc || !s->mapped)
		return rc;
	s->mapped = false;
	return gck_cuda_physical_forget(&s->memory);
}

CUresult gck_cuda_slab_map(struct gck_cuda_slab *s, int naps)
{
	CUresult rc = gck_cuda_physical_recall(&s->memory, naps);

	if (rc)
		return rc;
	rc = map(s);
	if (rc)
		gck_cuda_physical_forget(&s->memory);
	return rc;
}

/* Allow device `peer` to use the memory of `device`, or end that, also for future slabs. */
static CUresult allow(CUdevice device, CUdevice peer, bool may)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
				  .flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					       : CU_MEM_ACCESS_FLAGS_PROT_NONE};
	CUresult rc = CUDA_SUCCESS;

	if (device >= GCK_CUDA_DEVICES_MAX || peer >= GCK_CUDA_DEVICES_MAX)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (may)
		allowed[device] |= 1ull << peer;
	else
		allowed[device] &= ~(1ull << peer);
	for (size_t i = 0;
	     rc == CUDA_SUCCESS && !(for_good[device] >> peer & 1) && i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && s->mapped)
			rc = gck_cuda_real.cuMemSetAccess(s->base, s->size, &access, 1);
	}
	return rc;
}

static bool is_allowed(CUdevice device, CUdevice peer)
{
	return device < GCK_CUDA_DEVICES_MAX && peer < GCK_CUDA_DEVICES_MAX &&
	       (allowed[device] | for_good[device]) >> peer & 1;
}

CUresult gck_cuda_slab_allow_for_good(CUdevice device, CUdevice peer)
{
	bool before = device < GCK_CUDA_DEVICES_MAX && peer < GCK_CUDA_DEVICES_MAX &&
		      allowed[device] >> peer & 1;
	CUresult rc = allow(device, peer, true);

	if (device >= GCK_CUDA_DEVICES_MAX || peer >= GCK_CUDA_DEVICES_MAX)
		return rc;
	if (!before)
		allowed[device] &= ~(1ull << peer);
	if (rc == CUDA_SUCCESS)
		for_good[device] |= 1ull << peer;
	return rc;
}

/* ---- peer access, which counts for slabs as for the driver's memory ------------------------- */

/* The program enables access for a context, a slab for a device: the device's ends with the last
 * context's. A context that is destroyed keeps its count. */
static CUresult change(CUdevice of, CUdevice device, bool may)
{
	static unsigned contexts[GCK_CUDA_DEVICES_MAX]
				[GCK_CUDA_DEVICES_MAX]; /* with the slabs' lock */
	unsigned *n = of < GCK_CUDA_DEVICES_MAX && device < GCK_CUDA_DEVICES_MAX
			      ? &contexts[of][device]
			      : NULL;

	if (n && may)
		++*n;
	else if (n && *n && --*n)
		return CUDA_SUCCESS;
	return allow(of, device, may);
}

/* Allow the current context's device to use the memory of the peer's, or end that. */
static CUresult allow_context(CUcontext peer, bool may)
{
	CUdevice device, of;
	CUresult rc = gck_cuda_real.cuCtxGetDevice(&device);

	if (!rc)
		rc = gck_cuda_device_of(peer, &of);
	if (rc || of == device)
		return rc;
	gck_cuda_slabs_lock();
	rc = change(of, device, may);
	gck_cuda_slabs_unlock();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuCtxEnablePeerAccess(peer, flags);
	if (rc == CUDA_SUCCESS)
		rc = allow_context(peer, true);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxDisablePeerAccess, (CUcontext peer))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuCtxDisablePeerAccess(peer);
	if (rc == CUDA_SUCCESS)
		rc = allow_context(peer, false);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- copies --------------------------------------------------------------------------------- */

static bool has_context(CUdevice device)
{
	unsigned int flags;
	int active = 0;
	CUdevice current;

	if (gck_cuda_real.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device)
		return true;
	return gck_cuda_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
	       active;
}

/* Allow copies on `device` to use the memory of `of`. False: it was allowed already, or cannot
 * be. */
static bool open_one(CUdevice of, CUdevice device)
{
	int can = 0;

	return of != device && !is_allowed(of, device) && has_context(device) &&
	       gck_cuda_real.cuDeviceCanAccessPeer(&can, device, of) == CUDA_SUCCESS && can &&
	       gck_cuda_slab_allow_for_good(of, device) == CUDA_SUCCESS;
}

/* Another thread may have allowed what this one's call lacked. */
bool gck_cuda_reach(void)
{
	static uint64_t opened; /* with the slabs' lock */
	static __thread uint64_t seen __attribute__((tls_model("initial-exec")));
	bool some;
	int n = 0;

	if (gck_cuda_real.cuDeviceGetCount(&n) || n < 2)
		return false;
	gck_cuda_slabs_lock();
	for (CUdevice of = 0; of < n; of++) {
		for (CUdevice device = 0; device < n; device++)
			opened += open_one(of, device);
	}
	some = seen != opened;
	seen = opened;
	gck_cuda_slabs_unlock();
	return some;
}
