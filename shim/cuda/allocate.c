/* SPDX-License-Identifier: Apache-2.0
 * cuMemAlloc and cuMemFree on memory of our own (memory.h). */
#include "shim/cuda/function.h"
#include "shim/cuda/idle.h"
#include "shim/cuda/memory.h"

#define PITCH 512

static size_t pitch_of(size_t width)
{
	return (width + PITCH - 1) / PITCH * PITCH;
}

GCK_CUDA_FUNCTION(cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;

	GCK_CUDA_ENTER(0);
	if (address && bytes)
		rc = gck_cuda_memory_take(bytes, address);
	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		rc = gck_cuda_real.cuMemAlloc_v2(address, bytes);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemAllocPitch_v2, (CUdeviceptr *address, size_t *pitch, size_t width,
				       size_t height, unsigned int element))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;
	size_t bytes;

	GCK_CUDA_ENTER(0);
	if (address && pitch && width && height && (element == 4 || element == 8 || element == 16) &&
	    !__builtin_mul_overflow(pitch_of(width), height, &bytes)) {
		rc = gck_cuda_memory_take(bytes, address);
		if (rc == CUDA_SUCCESS)
			*pitch = pitch_of(width);
	}
	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		rc = gck_cuda_real.cuMemAllocPitch_v2(address, pitch, width, height, element);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* Is the address in our memory? Then rc says whether an allocation, which a becomes, begins there. */
static bool is_ours(CUdeviceptr address, struct gck_cuda_allocation *a, CUresult *rc)
{
	bool found = gck_cuda_memory_find(address, a);

	*rc = found && a->base == address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return found || gck_cuda_memory_is_ours(address);
}

/* As with the driver's own memory: what the context was given to do is done, then it is free. */
GCK_CUDA_FUNCTION(cuMemFree_v2, (CUdeviceptr address))
{
	struct gck_cuda_allocation a;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	if (!is_ours(address, &a, &rc)) {
		rc = gck_cuda_real.cuMemFree_v2(address);
		if (rc == CUDA_SUCCESS)
			gck_cuda_alive_remove(GCK_CUDA_MANAGED, address);
	} else if (rc == CUDA_SUCCESS) {
		rc = gck_cuda_settle(a.context);
		if (rc == CUDA_SUCCESS)
			rc = gck_cuda_memory_give(&a);
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* Memory of cuMemAlloc, too, may be freed in a stream's order: here when the stream has come so far. A
 * capture records such a free of a graph's memory alone, as the driver says. */
#define FREES_IN_ORDER(name, is_capturing, synchronize) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr address, CUstream stream)) \
	{ \
		struct gck_cuda_allocation a; \
		CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE; \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		if (!is_ours(address, &a, &rc) || gck_cuda_real.is_capturing(stream, &status) || \
		    status != CU_STREAM_CAPTURE_STATUS_NONE) { \
			rc = gck_cuda_real.name(address, stream); \
			if (rc == CUDA_SUCCESS) \
				gck_cuda_alive_remove(GCK_CUDA_MANAGED, address); \
		} else if (rc == CUDA_SUCCESS) { \
			rc = wait_for(gck_cuda_real.synchronize, stream); \
			if (rc == CUDA_SUCCESS) \
				rc = gck_cuda_memory_give(&a); \
		} \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}

/* A stream that is not in capture: others that are, also this thread's, are not harmed. */
static CUresult wait_for(CUresult (*synchronize)(CUstream stream), CUstream stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult rc = gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);

	if (rc)
		return rc;
	rc = synchronize(stream);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	return rc;
}

FREES_IN_ORDER(cuMemFreeAsync, cuStreamIsCapturing, cuStreamSynchronize)
FREES_IN_ORDER(cuMemFreeAsync_ptsz, cuStreamIsCapturing_ptsz, cuStreamSynchronize_ptsz)
