/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: events. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One record of an event. It is not freed: a stream may wait for it after the event was recorded
 * again. */
struct record {
	uint64_t pending;        /* marks that no stream has passed yet */
};

struct CUevent_st {
	CUcontext context;
	struct record *last;
	struct timespec at;      /* when the last mark was passed */
};

static void reach(struct fake_op *op)
{
	struct CUevent_st *e = (void *)(uintptr_t)op->args[0];
	struct record *r = (void *)(uintptr_t)op->args[2];

	fake_lock();
	r->pending -= r->pending > 0; /* a graph passes more than once */
	if (e->last == r)
		clock_gettime(CLOCK_MONOTONIC, &e->at);
	fake_changed();
	fake_unlock();
}

static void wait_until_reached(struct fake_op *op)
{
	const struct record *r = (void *)(uintptr_t)op->args[2];

	fake_lock();
	while (r->pending)
		fake_wait();
	fake_unlock();
}

CUresult fake_cuEventCreate(CUevent *event, unsigned int flags)
{
	(void)flags;
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*event = calloc(1, sizeof **event);
	(*event)->context = fake_current();
	(*event)->last = calloc(1, sizeof *(*event)->last);
	return CUDA_SUCCESS;
}

/* Its memory is not freed: a stream may still pass it. */
CUresult fake_cuEventDestroy_v2(CUevent event)
{
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuEventDestroy(CUevent event)
{
	return fake_cuEventDestroy_v2(event);
}

static struct fake_op mark_of(CUevent event)
{
	event->last = calloc(1, sizeof *event->last);
	return (struct fake_op){.run = reach,
				.args = {(uintptr_t)event, 0, (uintptr_t)event->last}};
}

CUresult fake_cuEventRecord(CUevent event, CUstream stream)
{
	struct fake_op mark;
	CUresult rc;

	fake_lock();
	mark = mark_of(event);
	event->last->pending = 1;
	rc = fake_give(fake_stream(stream), &mark);
	if (rc)
		event->last->pending = 0;
	fake_unlock();
	return rc;
}

CUresult fake_cuCtxRecordEvent(CUcontext context, CUevent event)
{
	struct fake_op mark;
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	if (context->broken) {
		rc = context->broken;
	} else if (fake_capturing(context)) {
		fake_capturing(context)->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else {
		mark = mark_of(event);
		fake_mark_all(context, &mark);
		event->last->pending = mark.args[1];
	}
	fake_unlock();
	return rc;
}

static CUresult state_of(CUevent event)
{
	if (event->context->broken)
		return event->context->broken;
	return event->last->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult fake_cuEventQuery(CUevent event)
{
	CUresult rc;

	fake_lock();
	rc = fake_not_in_capture();
	if (!rc)
		rc = state_of(event);
	fake_unlock();
	return rc;
}

CUresult fake_cuEventSynchronize(CUevent event)
{
	CUresult rc;

	fake_lock();
	rc = fake_not_in_capture();
	while (!rc && (rc = state_of(event)) == CUDA_ERROR_NOT_READY) {
		fake_wait();
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	*ms = (float)(end->at.tv_sec - start->at.tv_sec) * 1e3f +
	      (float)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6f;
	return start->last->pending || end->last->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult fake_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return fake_cuEventElapsedTime_v2(ms, start, end);
}

CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct fake_op op = {.run = wait_until_reached};
	CUresult rc;

	(void)flags;
	fake_lock();
	op.args[2] = (uintptr_t)event->last;
	rc = fake_give(fake_stream(stream), &op);
	fake_unlock();
	return rc;
}

/* ---- between processes: the events only exist ----------------------------------------------- */

CUresult fake_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	memset(handle, 0, sizeof *handle);
	memcpy(handle->reserved, &event, sizeof event);
	return CUDA_SUCCESS;
}

CUresult fake_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	(void)handle;
	return fake_cuEventCreate(event, 0);
}
