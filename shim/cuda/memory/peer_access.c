/* SPDX-License-Identifier: Apache-2.0
 * Peer access between devices, which counts for the program's own memory as for the driver's. */
#include "shim/cuda/memory/peer_access.h"

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/memory/slab.h"

/* Access is a context's, to slabs its device's: that goes with the last one. Of a context that ends it stays. */
static CUresult change(CUdevice of, CUdevice device, bool may)
{
	static unsigned contexts[GCK_CUDA_DEVICES_MAX][GCK_CUDA_DEVICES_MAX]; /* with the slabs' lock */
	unsigned *n = of < GCK_CUDA_DEVICES_MAX && device < GCK_CUDA_DEVICES_MAX ? &contexts[of][device] : NULL;

	if (n && may)
		++*n;
	else if (n && *n && --*n)
		return CUDA_SUCCESS;
	return gck_cuda_slab_allow(of, device, may);
}

/* The current context's device may use the memory of the peer's. */
static CUresult allow(CUcontext peer, bool may)
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
		rc = allow(peer, true);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuCtxDisablePeerAccess, (CUcontext peer))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuCtxDisablePeerAccess(peer);
	if (rc == CUDA_SUCCESS)
		rc = allow(peer, false);
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
	return gck_cuda_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* The memory of `of` for copies on `device`. False: it was already, or cannot be. */
static bool open_one(CUdevice of, CUdevice device)
{
	int can = 0;

	return of != device && !gck_cuda_slab_is_allowed(of, device) && has_context(device) &&
	       gck_cuda_real.cuDeviceCanAccessPeer(&can, device, of) == CUDA_SUCCESS && can &&
	       gck_cuda_slab_allow_for_good(of, device) == CUDA_SUCCESS;
}

/* Another thread may have opened what this one's call failed for. */
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
