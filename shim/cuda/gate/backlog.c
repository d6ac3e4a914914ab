/* SPDX-License-Identifier: Apache-2.0
 * An event in each context, recorded once. Contexts and their events are only used while the gate
 * is closed and no thread is inside, since the program may end them. */
#include "shim/cuda/gate/backlog.h"

#include <pthread.h>
#include <stdint.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/capture.h"

static struct {
	pthread_mutex_t lock;
	struct gck_cuda_handle_map events; /* context: its event, kept for the next time */
	struct gck_cuda_handle_map queued; /* context: 1 */
	bool marked;
} backlog = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gck_cuda_backlog_begin(void)
{
	backlog.marked = false;
}

void gck_cuda_backlog_forget(CUcontext context)
{
	pthread_mutex_lock(&backlog.lock);
	gck_cuda_handle_map_drop(&backlog.events, (uint64_t)(uintptr_t)context);
	gck_cuda_handle_map_drop(&backlog.queued, (uint64_t)(uintptr_t)context);
	pthread_mutex_unlock(&backlog.lock);
}

static CUevent event_of(CUcontext context)
{
	uint64_t *place = gck_cuda_handle_map_put(&backlog.events, (uint64_t)(uintptr_t)context);
	CUevent event;

	if (place && !*place && !gck_cuda_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
		*place = (uint64_t)(uintptr_t)event;
	return place ? (CUevent)(uintptr_t)*place : NULL;
}

/* What cannot be marked (a capture is under way) is left to the drain. The context is current. */
static void mark(CUcontext context)
{
	uint64_t *queued = gck_cuda_handle_map_put(&backlog.queued, (uint64_t)(uintptr_t)context);
	CUevent event = event_of(context);

	if (!queued || !gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent))
		return;
	*queued = 0;
	if (event && gck_cuda_capture_pause()) {
		*queued = !gck_cuda_real.cuCtxRecordEvent(context, event);
		gck_cuda_capture_go_on();
	}
}

static bool is_queued(CUcontext context)
{
	uint64_t *queued = gck_cuda_handle_map_get(&backlog.queued, (uint64_t)(uintptr_t)context);

	if (queued && *queued &&
	    gck_cuda_real.cuEventQuery(event_of(context)) != CUDA_ERROR_NOT_READY)
		*queued = 0;
	return queued && *queued;
}

bool gck_cuda_backlog_done(const struct gck_cuda_contexts *all)
{
	bool done = true;

	pthread_mutex_lock(&backlog.lock);
	for (size_t i = 0; i < all->n; i++) {
		CUcontext context = all->v[i].context;

		if (gck_cuda_real.cuCtxPushCurrent_v2(context))
			continue;
		if (!backlog.marked)
			mark(context);
		done = !is_queued(context) && done;
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
	}
	backlog.marked = true;
	pthread_mutex_unlock(&backlog.lock);
	return done;
}
