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
	struct CUevent_st *next;
	CUcontext context;
	struct fake_captured captured; /* n: by a capture */
	bool is_captured;
	struct record *last;
	struct timespec at;      /* when the last mark was passed */
};

static struct CUevent_st *events;

bool fake_is_event(CUevent event)
{
	CUevent e;

	fake_lock();
	e = events;
	while (e && !(e == event && fake_is_alive(e->context)))
		e = e->next;
	fake_unlock();
	return event && e;
}

/* Their handles are not used again. */
void fake_events_anew(void)
{
	events = NULL;
}

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
	fake_lock();
	(*event)->next = events;
	events = *event;
	fake_unlock();
	return CUDA_SUCCESS;
}

/* Its memory is not freed: a stream may still pass it. */
CUresult fake_cuEventDestroy_v2(CUevent event)
{
	struct CUevent_st **at = &events;

	fake_lock();
	while (*at && *at != event)
		at = &(*at)->next;
	if (*at)
		*at = event->next;
	fake_unlock();
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

static CUresult give_mark(CUevent event, struct CUstream_st *s)
{
	struct fake_op mark = mark_of(event);
	CUresult rc;

	event->is_captured = false;
	event->last->pending = 1;
	rc = fake_give(s, &mark);
	if (rc)
		event->last->pending = 0;
	return rc;
}

static CUresult give_wait(CUevent event, struct CUstream_st *s)
{
	return fake_give(s, &(const struct fake_op){.run = wait_until_reached,
						    .args = {0, 0, (uintptr_t)event->last}});
}

CUresult fake_give_event(CUevent event, struct CUstream_st *s, bool wait)
{
	return wait ? give_wait(event, s) : give_mark(event, s);
}

/* In a capture the event is what comes after the stream's work, or a node records it. */
CUresult fake_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CUresult rc = CUDA_SUCCESS;
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (!s || s->capture != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		rc = give_mark(event, s);
	} else if (flags & CU_EVENT_RECORD_EXTERNAL) {
		rc = fake_capture_event(s, event, false);
	} else {
		event->is_captured = true;
		event->captured = s->captured;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuEventRecord(CUevent event, CUstream stream)
{
	return fake_cuEventRecordWithFlags(event, stream, 0);
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
	if (event->is_captured)
		return CUDA_ERROR_CAPTURED_EVENT;
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
	if (start->is_captured || end->is_captured)
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)(end->at.tv_sec - start->at.tv_sec) * 1e3f +
	      (float)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6f;
	return start->last->pending || end->last->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult fake_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return fake_cuEventElapsedTime_v2(ms, start, end);
}

/* Whether the capture that recorded the event goes on. */
static bool is_capturing(CUevent event)
{
	const struct CUstream_st *s = fake_streams();

	while (s && (s->capture != CU_STREAM_CAPTURE_STATUS_ACTIVE ||
		     s->captured.id != event->captured.id))
		s = s->next;
	return event->is_captured && s;
}

CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct CUstream_st *s;
	bool captures;
	CUresult rc;

	fake_lock();
	s = fake_stream(stream);
	captures = s && s->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (captures && flags & CU_EVENT_WAIT_EXTERNAL)
		rc = fake_capture_event(s, event, true);
	else if (s && is_capturing(event))
		rc = fake_capture_join(s, &event->captured);
	else if (captures)
		rc = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	else
		rc = event->is_captured ? CUDA_ERROR_CAPTURED_EVENT : give_wait(event, s);
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
