/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/fence.h"

#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/real.h"

#define LOOKS 16 /* at an event that was recorded just now: an idle stream reaches it at once */

bool gck_cuda_fence_is_of_stream(const struct gck_cuda_lane *lane)
{
	return lane->stream && lane->stream != CU_STREAM_PER_THREAD && lane->stream != CU_STREAM_LEGACY;
}

/* An event in the legacy default stream would make others wait for each other, and a thread's own is another
 * stream in each thread: as with those that are gone, all of the context's work has to be done. */
static CUresult record(struct gck_cuda_lane *lane)
{
	CUresult rc = lane->event ? CUDA_SUCCESS : gck_cuda_real.cuEventCreate(&lane->event, CU_EVENT_DISABLE_TIMING);

	if (rc)
		return rc;
	if (gck_cuda_fence_is_of_stream(lane))
		return gck_cuda_real.cuEventRecord(lane->event, lane->stream);
	return gck_cuda_real.cuCtxRecordEvent(lane->context, lane->event);
}

bool gck_cuda_fence_set(struct gck_cuda_lane *lane)
{
	uint64_t now = gck_cuda_memory_id();
	CUcontext context;
	CUresult rc;

	if (gck_cuda_real.cuCtxPushCurrent_v2(lane->context))
		return false;
	rc = record(lane);
	if (rc == CUDA_SUCCESS)
		lane->fence = now;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc == CUDA_SUCCESS;
}

/* With the context current. */
static uint64_t reached(struct gck_cuda_lane *lane, int looks)
{
	uint64_t passed = lane->fence;
	CUresult rc = passed ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;

	while (rc == CUDA_ERROR_NOT_READY && looks-- > 0)
		rc = gck_cuda_real.cuEventQuery(lane->event);
	if (rc)
		return 0;
	lane->fence = 0;
	return passed;
}

/* Nothing on it: all is done. But not of one that waits for the legacy default stream: what it waits for may
 * still be under way there, and would be awaited by the next that it is given alone. */
static bool is_idle(const struct gck_cuda_lane *lane)
{
	return lane->stream && lane->apart && gck_cuda_real.cuStreamQuery(lane->stream) == CUDA_SUCCESS;
}

uint64_t gck_cuda_fence_passed(struct gck_cuda_lane *lane)
{
	CUcontext context;
	uint64_t passed;

	if (gck_cuda_real.cuCtxPushCurrent_v2(lane->context))
		return 0;
	passed = reached(lane, 1);
	if (lane->newest > passed && is_idle(lane))
		passed = lane->newest;
	else if (lane->newest > passed && !lane->fence && gck_cuda_fence_set(lane))
		passed = reached(lane, LOOKS) ?: passed;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return passed;
}

CUresult gck_cuda_fence_wait(const struct gck_cuda_lane *lane, CUstream stream)
{
	return gck_cuda_real.cuStreamWaitEvent(stream, lane->event, 0);
}

void gck_cuda_fence_end(struct gck_cuda_lane *lane)
{
	if (lane->event)
		gck_cuda_real.cuEventDestroy_v2(lane->event);
	lane->event = NULL;
	lane->fence = 0;
}
