/* SPDX-License-Identifier: Apache-2.0
 * Calls of stream-ordered memory (stream/). In a capture they make nodes of the graph, whose
 * memory is the driver's own. */
#include "shim/cuda/allocation/allocate.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/ordered_memory.h"

/* The stream that 0 means in a function with default streams of either kind. */
static CUstream named(CUstream stream, bool per_thread)
{
	return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* The driver reports invalid arguments: no address, no bytes, no pool. */
static CUresult take(CUmemoryPool pool, CUstream stream, size_t bytes, CUdeviceptr *address)
{
	return address && bytes && !gck_cuda_capture_has(stream)
	       ? gck_cuda_ordered_take(pool, stream, bytes, address) : CUDA_ERROR_NOT_SUPPORTED;
}

#define TAKES(name, per_thread) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr *address, size_t bytes, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = take(NULL, named(stream, per_thread), bytes, address); \
		if (rc == CUDA_ERROR_NOT_SUPPORTED) \
			GCK_CUDA_TRY(rc, gck_cuda_real.name(address, bytes, stream)); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
TAKES(cuMemAllocAsync, false)
TAKES(cuMemAllocAsync_ptsz, true)

#define TAKES_FROM_POOL(name, per_thread) \
	GCK_CUDA_FUNCTION( \
		name, (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = pool ? take(pool, named(stream, per_thread), bytes, address) \
			  : CUDA_ERROR_NOT_SUPPORTED; \
		if (rc == CUDA_ERROR_NOT_SUPPORTED) \
			GCK_CUDA_TRY(rc, gck_cuda_real.name(address, bytes, pool, stream)); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
TAKES_FROM_POOL(cuMemAllocFromPoolAsync, false)
TAKES_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

/* ---- giving back ---------------------------------------------------------------------------- */

/* The stream's context if the stream synchronizes with the legacy default stream; else NULL.
 * Such a stream may be idle although that one is not: it waits only when it is given more work. */
static CUcontext with_legacy(CUstream stream)
{
	CUcontext context = NULL;
	unsigned int flags = 0;

	if (gck_cuda_real.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS &&
	    flags & CU_STREAM_NON_BLOCKING)
		return NULL;
	if (gck_cuda_real.cuStreamGetCtx(stream, &context))
		gck_cuda_real.cuCtxGetCurrent(&context); /* a stream of a green context may have
							  * none */
	return context;
}

/* The stream is in no capture; captures of others, and of this thread, are not harmed. */
static CUresult wait_for(CUstream stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult rc = gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuStreamSynchronize(stream);
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	return rc;
}

/* Memory of cuMemAlloc may be freed in a stream's order, too: this waits for the stream.
 * CUDA_ERROR_NOT_FOUND: the memory is not ours. */
static CUresult give(CUdeviceptr address, CUstream stream)
{
	struct gck_cuda_allocation a;
	CUcontext context;
	CUresult rc = gck_cuda_ordered_free(address, stream);

	if (rc != CUDA_ERROR_NOT_FOUND)
		return rc;
	if (!gck_cuda_allocation_is_ours(address, &a, &rc))
		return CUDA_ERROR_NOT_FOUND;
	if (!rc && !gck_cuda_memory_is_ours(address))
		return CUDA_ERROR_NOT_SUPPORTED; /* as the driver does for managed memory */
	if (rc == CUDA_SUCCESS)
		rc = wait_for(stream);
	if (rc)
		return rc;
	context = with_legacy(stream);
	return context ? gck_cuda_allocation_give(&a, context) : gck_cuda_allocation_give_now(&a);
}

/* As the driver, record in a capture only the free of a graph's memory. */
#define FREES(name, per_thread) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr address, CUstream stream)) \
	{ \
		CUresult rc = CUDA_ERROR_NOT_FOUND; \
		GCK_CUDA_ENTER(stream); \
		gck_cuda_follow(named(stream, per_thread)); \
		if (!gck_cuda_capture_has(named(stream, per_thread))) \
			rc = give(address, named(stream, per_thread)); \
		if (rc == CUDA_ERROR_NOT_FOUND) { \
			rc = gck_cuda_real.name(address, stream); \
			if (rc == CUDA_SUCCESS) \
				gck_cuda_obstacle_remove(GCK_CUDA_MANAGED, address); \
		} \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
FREES(cuMemFreeAsync, false)
FREES(cuMemFreeAsync_ptsz, true)

/* ---- waiting for the GPU -------------------------------------------------------------------- */

/* After the program waited for the GPU its pools give back what they should not keep, as the
 * driver's do. */
#define WAITS(name, parameters, object, follow, idle, argument) \
	GCK_CUDA_FUNCTION(name, parameters) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(object); \
		follow; \
		rc = gck_cuda_real.name(argument); \
		if (rc == CUDA_SUCCESS) { \
			idle; \
			gck_cuda_ordered_waited(); \
		} \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
WAITS(cuStreamSynchronize, (CUstream stream), stream, gck_cuda_follow(named(stream, false)),
      gck_cuda_gave_other(named(stream, false)), stream)
WAITS(cuStreamSynchronize_ptsz, (CUstream stream), stream, gck_cuda_follow(named(stream, true)),
      gck_cuda_gave_other(named(stream, true)), stream)
/* no event is behind such a kernel */
WAITS(cuEventSynchronize, (CUevent event), 0, (void)0, (void)0, event)
WAITS(cuCtxSynchronize, (void), 0, gck_cuda_follow_all(), (void)0, )
WAITS(cuCtxSynchronize_v2, (CUcontext context), 0, gck_cuda_follow_all(), (void)0, context)
