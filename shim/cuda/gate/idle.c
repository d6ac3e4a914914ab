/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/idle.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/backlog.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/stream.h"
#include "shim/cuda/real.h"

#define MS 1000000ll
#define LOOK_NS 20000      /* between queries of the GPU, doubled up to */
#define LOOK_MOST_NS 1000000

bool gck_cuda_is_busy(CUstream stream)
{
	bool busy;

	if (!gck_cuda_capture_pause())
		return false;
	busy = gck_cuda_real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
	gck_cuda_capture_go_on();
	return busy;
}

int64_t gck_cuda_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void nap(int64_t ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	nanosleep(&t, NULL);
}

/* ---- the GPU -------------------------------------------------------------------------------- */

/* The result of a visit of streams. */
struct found {
	CUstream stream;
	CUresult rc; /* not CUDA_SUCCESS: the context is unusable */
};

/* Whether the stream is in a capture, or a query of it would become part of one. */
static CUresult ask_capture(CUstream stream, bool *captures)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult rc = gck_cuda_real.cuStreamIsCapturing(stream, &status);

	*captures = rc == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
		    status != CU_STREAM_CAPTURE_STATUS_NONE;
	return rc == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? CUDA_SUCCESS : rc;
}

static int is_captured(CUstream stream, void *arg)
{
	struct found *f = arg;
	bool captures;

	*f = (struct found){.stream = stream, .rc = ask_capture(stream, &captures)};
	return f->rc || captures;
}

/* Whether a capture may be under way that an event of the context would cover: green contexts'
 * streams are not listed. legacy: whether the default stream would become part of the capture. */
static CUresult look_for_capture(CUcontext context, bool *any, bool *legacy)
{
	struct found f = {.rc = ask_capture(CU_STREAM_LEGACY, legacy)};

	*any = *legacy || gck_cuda_capture_is_on() ||
	       (!f.rc && gck_cuda_streams_each(context, is_captured, &f));
	return f.rc;
}

/* Work on a stream in a capture is not executed, but a query would end the capture. */
static int is_busy(CUstream stream, void *arg)
{
	struct found *f = arg;
	bool captures;

	*f = (struct found){.stream = stream, .rc = ask_capture(stream, &captures)};
	return f->rc || (!captures && gck_cuda_real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
}

static int name_busy(CUcontext context, struct gck_error *err)
{
	struct found f = {.rc = CUDA_SUCCESS};

	if (gck_cuda_streams_each(context, is_busy, &f) && !f.rc)
		return gck_fail(err, EBUSY,
				"stream %p has work that does not end (a long kernel, or one "
				"that waits for the CPU or for another rank): try again later",
				(void *)f.stream);
	return gck_fail(err, EBUSY,
			"a default stream of context %p, or one that was destroyed, has work "
			"that does not end: try again later",
			(void *)context);
}

static int broken(CUcontext context, CUresult rc, struct gck_error *err)
{
	return gck_fail(err, EIO,
			"context %p is unusable: %s, from work that the program gave it",
			(void *)context, gck_cuda_error_name(rc));
}

/* The context is current, and none of its streams is in a capture: work on any stream, known
 * here or not, is behind the event. */
static int wait_event(CUcontext context, CUevent event, int64_t end_ns, struct gck_error *err)
{
	int64_t look = LOOK_NS;
	CUresult rc = gck_cuda_real.cuCtxRecordEvent(context, event);

	while (rc == CUDA_SUCCESS &&
	       (rc = gck_cuda_real.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
		if (gck_cuda_now_ns() > end_ns)
			return name_busy(context, err);
		nap(look);
		look = 2 * look < LOOK_MOST_NS ? 2 * look : LOOK_MOST_NS;
		rc = CUDA_SUCCESS;
	}
	return rc ? broken(context, rc, err) : 0;
}

/* Query each stream that may be queried. CUDA_ERROR_NOT_READY: one has work left. */
static CUresult ask_streams(CUcontext context, bool legacy)
{
	CUresult rc = legacy ? gck_cuda_real.cuStreamQuery(CU_STREAM_LEGACY) : CUDA_SUCCESS;
	struct found f = {.rc = CUDA_SUCCESS};

	if (rc == CUDA_SUCCESS && gck_cuda_streams_each(context, is_busy, &f))
		rc = f.rc ? f.rc : CUDA_ERROR_NOT_READY;
	return rc;
}

static int wait_streams(CUcontext context, bool legacy, int64_t end_ns, struct gck_error *err)
{
	CUresult rc;

	while ((rc = ask_streams(context, legacy)) == CUDA_ERROR_NOT_READY) {
		if (gck_cuda_now_ns() > end_ns)
			return name_busy(context, err);
		nap(LOOK_MOST_NS);
	}
	return rc ? broken(context, rc, err) : 0;
}

/* A capture survives a checkpoint. An event recorded for its context, or a query of the default
 * stream that it may depend on, would end it (driver 580). */
static int wait_context(CUcontext context, int64_t end_ns, bool *unseen, struct gck_error *err)
{
	bool capture, legacy;
	CUresult rc = look_for_capture(context, &capture, &legacy);
	CUevent event;
	int failed;

	if (rc)
		return broken(context, rc, err);
	if (capture || !gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent)) {
		*unseen = true;
		return wait_streams(context, !capture, end_ns, err);
	}
	rc = gck_cuda_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (rc)
		return gck_cuda_fail(err, "cuEventCreate", rc);
	failed = wait_event(context, event, end_ns, err);
	gck_cuda_real.cuEventDestroy_v2(event);
	return failed;
}

static int wait_gpu(const struct gck_cuda_contexts *all, int64_t end_ns, struct gck_error *err)
{
	bool unseen = false; /* there may be work on streams that could not be queried */
	int failed = 0;

	for (size_t i = 0; failed == 0 && i < all->n; i++) {
		CUcontext context = all->v[i].context;
		CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

		if (rc)
			return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
		failed = wait_context(context, end_ns, &unseen, err);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
	}
	return failed == 0 && unseen ? gck_cuda_driver_wait(end_ns, err) : failed;
}

/* A capture that began between the query and the record would be ended by the record. */
static CUresult record_all(CUcontext context, CUevent event)
{
	CUresult rc = CUDA_ERROR_NOT_READY;

	if (gck_cuda_capture_pause()) {
		rc = gck_cuda_real.cuCtxRecordEvent(context, event);
		gck_cuda_capture_go_on();
	}
	return rc;
}

/* The waiting thread spins or sleeps as the context's flags say. */
static unsigned int event_flags(void)
{
	unsigned int flags = 0;

	gck_cuda_real.cuCtxGetFlags(&flags);
	return CU_EVENT_DISABLE_TIMING |
	       ((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC ? CU_EVENT_BLOCKING_SYNC
									  : 0);
}

static CUresult settle_all(CUcontext context)
{
	CUevent event;
	CUresult rc;

	if (!gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent) ||
	    gck_cuda_real.cuEventCreate(&event, event_flags()))
		return gck_cuda_real.cuCtxSynchronize();
	rc = record_all(context, event);
	if (rc == CUDA_SUCCESS)
		rc = gck_cuda_real.cuEventSynchronize(event);
	else if (rc != CUDA_ERROR_NOT_READY)
		rc = gck_cuda_real.cuCtxSynchronize();
	gck_cuda_real.cuEventDestroy_v2(event);
	return rc;
}

static CUresult settle_streams(CUcontext context)
{
	bool capture, legacy;
	CUresult rc = look_for_capture(context, &capture, &legacy);

	if (rc)
		return rc;
	while ((rc = ask_streams(context, !legacy)) == CUDA_ERROR_NOT_READY)
		nap(LOOK_NS);
	return rc;
}

/* Make the context current, and the capture mode relaxed, so that captures are not harmed. */
static CUresult in_context(CUcontext context, CUresult (*settle)(CUcontext context))
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	if (rc == CUDA_SUCCESS) {
		rc = settle(context);
		gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	}
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc;
}

CUresult gck_cuda_wait_context(CUcontext context)
{
	return in_context(context, settle_all);
}

CUresult gck_cuda_wait_streams(CUcontext context)
{
	return in_context(context, settle_streams);
}

/* ---- the gate ------------------------------------------------------------------------------- */

static int name_inside(struct gck_error *err)
{
	struct gck_gate_place at = {.function = ""};

	if (!gck_gate_where(&at))
		return gck_fail(err, EBUSY, "threads of the program call CUDA without a pause");
	if (at.object)
		return gck_fail(err, EBUSY,
				"thread %d (%s) is in %s on stream %#llx, which does not end: "
				"try again later",
				at.tid, at.name, at.function, (unsigned long long)at.object);
	return gck_fail(err, EBUSY, "thread %d (%s) is in %s, which does not end: try again later",
			at.tid, at.name, at.function);
}

static bool is_empty_by(int64_t end_ns)
{
	int64_t left = (end_ns - gck_cuda_now_ns()) / MS;

	return gck_gate_wait_empty(left > 0 ? (int)left : 0);
}

/* Callbacks run until the GPU is idle and call CUDA: they must have left as well. */
static int wait_all(const struct gck_cuda_contexts *all, int64_t end_ns, struct gck_error *err)
{
	if (wait_gpu(all, end_ns, err))
		return -1;
	return is_empty_by(end_ns) ? 0 : name_inside(err);
}

#define SETTLE_NS (1000 * MS) /* for kernels that were asked to leave, beside a closed gate */

static int attempt(int64_t end_ns, struct gck_cuda_contexts *all, struct gck_error *err)
{
	int failed;

	gck_gate_close();
	gck_cuda_follow_ask(end_ns);
	failed = is_empty_by(end_ns) ? gck_cuda_contexts_take(all, err) : name_inside(err);
	if (failed == 0) {
		failed = wait_all(all, end_ns, err);
		if (failed)
			gck_cuda_contexts_give(all);
	}
	if (failed) {
		/* a launch that fails shows again when the drain asks (drain.c) */
		if (gck_cuda_follow_settle(gck_cuda_now_ns() + SETTLE_NS, NULL))
			failed = -1;
		gck_gate_open();
	}
	return failed;
}

int gck_cuda_quiesce(int64_t end_ns, struct gck_cuda_contexts *all, struct gck_error *err)
{
	static const int attempts_ms[] = {100, 400, 1600};
	int failed = gck_fail(err, ETIMEDOUT, "no time was left to wait for the GPU");

	for (size_t i = 0; i < sizeof attempts_ms / sizeof *attempts_ms; i++) {
		int64_t now = gck_cuda_now_ns(), ns = attempts_ms[i] * MS;

		if (now >= end_ns)
			break;
		failed = attempt(now + ns < end_ns ? now + ns : end_ns, all, err);
		if (failed == 0 || now + 2 * ns >= end_ns)
			break;
		nap(ns);
	}
	return failed;
}

#define SLICE_MS 2
#define CLOSED_NS (1600 * MS) /* the gate, while no thread waits for it */
#define WAITED 5              /* slices after which one has waited enough */

/* A closed gate costs the program nothing as long as no thread waits for it. */
static bool leave_soon(int64_t end_ns)
{
	int64_t closed_ns = gck_cuda_now_ns() + CLOSED_NS;
	int waited = 0;

	while (!gck_gate_wait_empty(SLICE_MS)) {
		int64_t now = gck_cuda_now_ns();

		waited += gck_gate_waited();
		if (waited > WAITED || now > closed_ns || now > end_ns)
			return false;
	}
	return true;
}

bool gck_cuda_queue_done(int64_t end_ns, bool *seen)
{
	struct gck_cuda_contexts all;
	bool done = false;

	*seen = true;
	if (gck_cuda_follow_running()) /* which will leave; the rest is left to the drain */
		return true;
	gck_gate_close();
	*seen = leave_soon(end_ns);
	if (*seen && gck_cuda_contexts_take(&all, NULL) == 0) {
		done = gck_cuda_backlog_done(&all);
		gck_cuda_contexts_give(&all);
	}
	gck_gate_open();
	return done;
}

/* ---- streams of our own in a drain ---------------------------------------------------------- */

#define STREAM_LOOK_NS 50000

static void (*tell_late)(const struct gck_error *why);

void gck_cuda_stream_wait_tells(void (*late)(const struct gck_error *why))
{
	tell_late = late;
}

static CUresult wait_until(CUstream stream, int64_t end_ns)
{
	const struct timespec look = {0, STREAM_LOOK_NS};
	CUresult rc;

	while ((rc = gck_cuda_real.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY &&
	       gck_cuda_now_ns() < end_ns)
		nanosleep(&look, NULL);
	return rc;
}

int gck_cuda_stream_wait(CUstream stream, CUdevice device, int64_t end_ns, struct gck_error *err)
{
	CUresult rc = end_ns ? wait_until(stream, end_ns)
			     : gck_cuda_real.cuStreamSynchronize(stream);
	struct gck_error why;

	if (rc == CUDA_SUCCESS)
		return 0;
	if (rc != CUDA_ERROR_NOT_READY)
		return gck_cuda_fail(err, "copying device memory", rc);
	gck_fail(&why, ETIMEDOUT,
		 "device %d: the copy of its memory does not end, another process may keep the "
		 "device "
		 "busy: try again later, or give hold= more",
		 device);
	tell_late(&why);
	gck_cuda_real.cuStreamSynchronize(stream);
	return gck_fail(err, why.code, "%s", why.text);
}
