/* SPDX-License-Identifier: Apache-2.0
 * Peer access between devices, which counts for the program's own memory as for the driver's. */
#include "shim/cuda/context.h"
#include "shim/cuda/function.h"
#include "shim/cuda/slab.h"

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
	rc = gck_cuda_slab_allow(of, device, may);
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
