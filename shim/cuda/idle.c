/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/idle.h"

#include <stdbool.h>
#include <time.h>

#include "shim/cuda/context.h"
#include "shim/cuda/function.h"

#define MS 1000000ll
#define LOOK_NS 20000      /* between looks at the GPU, doubled up to */
#define LOOK_MOST_NS 1000000

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

static int is_captured(CUstream stream, void *arg)
{
	CUstreamCaptureStatus status;

	if (gck_cuda_real.cuStreamIsCapturing(stream, &status) ||
	    status == CU_STREAM_CAPTURE_STATUS_NONE)
		return 0;
	*(CUstream *)arg = stream;
	return 1;
}

static int is_busy(CUstream stream, void *arg)
{
	if (gck_cuda_real.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
		return 0;
	*(CUstream *)arg = stream;
	return 1;
}

static int name_busy(CUcontext context, struct gck_error *err)
{
	CUstream stream;

	if (gck_cuda_streams_each(context, is_busy, &stream))
		return gck_fail(err, EBUSY, "stream %p has work that does not end (a long kernel, or one "
				"that waits for the CPU or for another rank): try again later",
				(void *)stream);
	return gck_fail(err, EBUSY, "a default stream of context %p, or one that was destroyed, has work "
			"that does not end: try again later", (void *)context);
}

static int broken(CUcontext context, CUresult rc, struct gck_error *err)
{
	return gck_fail(err, EIO, "context %p is of no use any more: %s, from work that the program gave "
			"it", (void *)context, gck_cuda_error_name(rc));
}

/* The context is current. What was given to any of its streams is behind the event; those of a
 * driver before CUDA 12.5 are asked one by one. */
static int wait_event(CUcontext context, CUevent event, int64_t end_ns, struct gck_error *err)
{
	int64_t look = LOOK_NS;
	CUresult rc = gck_cuda_real.cuCtxRecordEvent(context, event);

	if (rc == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		return gck_fail(err, EBUSY, "a stream of context %p is in capture: try again later",
				(void *)context);
	while (rc == CUDA_SUCCESS && (rc = gck_cuda_real.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
		if (gck_cuda_now_ns() > end_ns)
			return name_busy(context, err);
		nap(look);
		look = 2 * look < LOOK_MOST_NS ? 2 * look : LOOK_MOST_NS;
		rc = CUDA_SUCCESS;
	}
	return rc ? broken(context, rc, err) : 0;
}

static int wait_streams(CUcontext context, int64_t end_ns, struct gck_error *err)
{
	CUstream stream;
	CUresult rc;

	while ((rc = gck_cuda_real.cuStreamQuery(CU_STREAM_LEGACY)) == CUDA_ERROR_NOT_READY ||
	       gck_cuda_streams_each(context, is_busy, &stream)) {
		if (gck_cuda_now_ns() > end_ns)
			return name_busy(context, err);
		nap(LOOK_MOST_NS);
	}
	return rc ? broken(context, rc, err) : 0;
}

static int wait_context(CUcontext context, int64_t end_ns, struct gck_error *err)
{
	CUstream captured;
	CUevent event;
	int failed;
	CUresult rc;

	if (gck_cuda_streams_each(context, is_captured, &captured))
		return gck_fail(err, EBUSY, "stream %p is in capture: try again later", (void *)captured);
	if (!gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent))
		return wait_streams(context, end_ns, err);
	rc = gck_cuda_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (rc)
		return gck_cuda_fail(err, "cuEventCreate", rc);
	failed = wait_event(context, event, end_ns, err);
	gck_cuda_real.cuEventDestroy_v2(event);
	return failed;
}

static int wait_gpu(int64_t end_ns, struct gck_error *err)
{
	struct gck_cuda_contexts all;
	int failed = gck_cuda_contexts_take(&all, err);

	if (failed)
		return failed;
	for (size_t i = 0; failed == 0 && i < all.n; i++) {
		CUcontext context = all.v[i].context;
		CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

		if (rc) {
			failed = gck_cuda_fail(err, "cuCtxPushCurrent", rc);
			continue;
		}
		failed = wait_context(context, end_ns, err);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
	}
	gck_cuda_contexts_give(&all);
	return failed;
}

/* ---- the gate ------------------------------------------------------------------------------- */

static int name_inside(struct gck_error *err)
{
	struct gck_gate_place at = {.function = ""};

	if (!gck_gate_where(&at))
		return gck_fail(err, EBUSY, "threads of the program call CUDA without a pause");
	if (at.object)
		return gck_fail(err, EBUSY, "thread %d (%s) is in %s on stream %#llx, which does not end: "
				"try again later", at.tid, at.name, at.function,
				(unsigned long long)at.object);
	return gck_fail(err, EBUSY, "thread %d (%s) is in %s, which does not end: try again later",
			at.tid, at.name, at.function);
}

/* Callbacks run while the GPU comes to its end, and call CUDA: they are to be out again. */
static int attempt(int64_t end_ns, struct gck_error *err)
{
	int64_t left;
	int failed;

	gck_gate_close();
	left = (end_ns - gck_cuda_now_ns()) / MS;
	failed = gck_gate_wait_empty(left > 0 ? (int)left : 0) ? wait_gpu(end_ns, err)
							       : name_inside(err);
	if (failed == 0 && !gck_gate_empty())
		failed = name_inside(err);
	if (failed)
		gck_gate_open();
	return failed;
}

int gck_cuda_quiet(int64_t end_ns, struct gck_error *err)
{
	static const int attempts_ms[] = {100, 400, 1600};
	int failed = gck_fail(err, ETIMEDOUT, "no time was left to bring the GPU to rest");

	for (size_t i = 0; i < sizeof attempts_ms / sizeof *attempts_ms; i++) {
		int64_t now = gck_cuda_now_ns(), ns = attempts_ms[i] * MS;

		if (now >= end_ns)
			break;
		failed = attempt(now + ns < end_ns ? now + ns : end_ns, err);
		if (failed == 0 || now + 2 * ns >= end_ns)
			break;
		nap(ns);
	}
	return failed;
}
