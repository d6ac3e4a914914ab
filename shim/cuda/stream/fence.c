/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/fence.h"

#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/real.h"

#define LOOKS 16 /* queries of an event just recorded: an idle stream passes it at once */

bool gck_cuda_fence_is_of_stream(const struct gck_cuda_stream_cache *cache)
{
	return cache->stream && cache->stream != CU_STREAM_PER_THREAD &&
	       cache->stream != CU_STREAM_LEGACY;
}

/* Record an event of all the context's work for the legacy default stream, where an event would
 * make other streams wait, for a thread's own, which is another stream in each thread, and for
 * destroyed streams. */
static CUresult record(struct gck_cuda_stream_cache *cache)
{
	CUresult rc = cache->event
			      ? CUDA_SUCCESS
			      : gck_cuda_real.cuEventCreate(&cache->event, CU_EVENT_DISABLE_TIMING);

	if (rc)
		return rc;
	if (gck_cuda_fence_is_of_stream(cache))
		return gck_cuda_real.cuEventRecord(cache->event, cache->stream);
	return gck_cuda_real.cuCtxRecordEvent(cache->context, cache->event);
}

bool gck_cuda_fence_set(struct gck_cuda_stream_cache *cache)
{
	uint64_t now = gck_cuda_memory_id();
	CUcontext context;
	CUresult rc;

	if (gck_cuda_real.cuCtxPushCurrent_v2(cache->context))
		return false;
	rc = record(cache);
	if (rc == CUDA_SUCCESS)
		cache->fence = now;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc == CUDA_SUCCESS;
}

/* With the context current. */
static uint64_t reached(struct gck_cuda_stream_cache *cache, int looks)
{
	uint64_t passed = cache->fence;
	CUresult rc = passed ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;

	while (rc == CUDA_ERROR_NOT_READY && looks-- > 0)
		rc = gck_cuda_real.cuEventQuery(cache->event);
	if (rc)
		return 0;
	cache->fence = 0;
	return passed;
}

/* An idle stream has passed all its frees, unless it synchronizes with the legacy default
 * stream: what it waits for there may be under way, and it would wait only when it is given more
 * work. */
static bool is_idle(const struct gck_cuda_stream_cache *cache)
{
	return cache->stream && cache->apart &&
	       gck_cuda_real.cuStreamQuery(cache->stream) == CUDA_SUCCESS;
}

uint64_t gck_cuda_fence_passed(struct gck_cuda_stream_cache *cache)
{
	CUcontext context;
	uint64_t passed;

	if (gck_cuda_real.cuCtxPushCurrent_v2(cache->context))
		return 0;
	passed = reached(cache, 1);
	if (cache->newest > passed && is_idle(cache))
		passed = cache->newest;
	else if (cache->newest > passed && !cache->fence && gck_cuda_fence_set(cache))
		passed = reached(cache, LOOKS) ?: passed;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return passed;
}

CUresult gck_cuda_fence_wait(const struct gck_cuda_stream_cache *cache, CUstream stream)
{
	return gck_cuda_real.cuStreamWaitEvent(stream, cache->event, 0);
}

void gck_cuda_fence_end(struct gck_cuda_stream_cache *cache)
{
	if (cache->event)
		gck_cuda_real.cuEventDestroy_v2(cache->event);
	cache->event = NULL;
	cache->fence = 0;
}
