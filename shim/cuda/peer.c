/* SPDX-License-Identifier: Apache-2.0
 * Peer access between devices, which counts for the program's own memory as for the driver's. */
#include "shim/cuda/function.h"
#include "shim/cuda/slab.h"

static CUresult device_of(CUcontext context, CUdevice *device)
{
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuCtxGetDevice(device);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc;
}

/* The current context's device may use the memory of the peer's. */
static CUresult allow(CUcontext peer, bool may)
{
	CUdevice device, of;
	CUresult rc = gck_cuda_real.cuCtxGetDevice(&device);

	if (!rc)
		rc = device_of(peer, &of);
	return rc || of == device ? rc : gck_cuda_slab_allow(of, device, may);
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
