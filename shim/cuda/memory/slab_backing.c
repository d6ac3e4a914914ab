/* SPDX-License-Identifier: Apache-2.0
 * The memory below a slab, at its addresses. */
#include "shim/cuda/base/state.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/real.h"

static uint64_t allowed[GCK_CUDA_DEVICES_MAX]; /* by device: others that may use its memory */
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
	uint64_t others = s->device < GCK_CUDA_DEVICES_MAX ? allowed[s->device] | for_good[s->device] : 0;
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

CUresult gck_cuda_slab_allow(CUdevice device, CUdevice peer, bool may)
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
	for (size_t i = 0; rc == CUDA_SUCCESS && !(for_good[device] >> peer & 1) && i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && s->mapped)
			rc = gck_cuda_real.cuMemSetAccess(s->base, s->size, &access, 1);
	}
	return rc;
}

bool gck_cuda_slab_is_allowed(CUdevice device, CUdevice peer)
{
	return device < GCK_CUDA_DEVICES_MAX && peer < GCK_CUDA_DEVICES_MAX &&
	       (allowed[device] | for_good[device]) >> peer & 1;
}

CUresult gck_cuda_slab_allow_for_good(CUdevice device, CUdevice peer)
{
	bool before = device < GCK_CUDA_DEVICES_MAX && peer < GCK_CUDA_DEVICES_MAX && allowed[device] >> peer & 1;
	CUresult rc = gck_cuda_slab_allow(device, peer, true);

	if (device >= GCK_CUDA_DEVICES_MAX || peer >= GCK_CUDA_DEVICES_MAX)
		return rc;
	if (!before)
		allowed[device] &= ~(1ull << peer);
	if (rc == CUDA_SUCCESS)
		for_good[device] |= 1ull << peer;
	return rc;
}
