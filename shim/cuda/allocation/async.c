/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory, on slabs (ordered.h). In a capture such calls make a graph's nodes, and memory that is
 * the graph's: the driver's own. */
#include "shim/cuda/allocation/allocate.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/stream/ordered_memory.h"

/* Of a function with default streams of one kind or of the other. */
static CUstream named(CUstream stream, bool per_thread)
{
	return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* The driver refuses what it must: no address, no bytes, no pool. */
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
	GCK_CUDA_FUNCTION(name, (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = pool ? take(pool, named(stream, per_thread), bytes, address) : CUDA_ERROR_NOT_SUPPORTED; \
		if (rc == CUDA_ERROR_NOT_SUPPORTED) \
			GCK_CUDA_TRY(rc, gck_cuda_real.name(address, bytes, pool, stream)); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
TAKES_FROM_POOL(cuMemAllocFromPoolAsync, false)
TAKES_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

/* ---- giving back ---------------------------------------------------------------------------- */

/* Its context, if this stream waits for the legacy default one: that may have come to its end before, and would wait
 * for what that was given only with the next that it is given. NULL: it does not. */
static CUcontext with_legacy(CUstream stream)
{
	CUcontext context = NULL;
	unsigned int flags = 0;

	if (gck_cuda_real.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && flags & CU_STREAM_NON_BLOCKING)
		return NULL;
	if (gck_cuda_real.cuStreamGetCtx(stream, &context))
		gck_cuda_real.cuCtxGetCurrent(&context); /* as a green context's may have none to tell */
	return context;
}

/* A stream that is not in capture: others that are, also this thread's, are not harmed. */
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

/* Memory of cuMemAlloc, too, may be freed in a stream's order: here when the stream has come so far. NOT_FOUND: it
 * is none of ours. */
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
		return CUDA_ERROR_NOT_SUPPORTED; /* as the driver says of managed memory */
	if (rc == CUDA_SUCCESS)
		rc = wait_for(stream);
	if (rc)
		return rc;
	context = with_legacy(stream);
	return context ? gck_cuda_allocation_give(&a, context) : gck_cuda_allocation_give_now(&a);
}

/* A capture records the free of a graph's memory alone, as the driver says. */
#define FREES(name, per_thread) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr address, CUstream stream)) \
	{ \
		CUresult rc = CUDA_ERROR_NOT_FOUND; \
		GCK_CUDA_ENTER(stream); \
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
