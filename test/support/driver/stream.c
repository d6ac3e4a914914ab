/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: streams. Each has a thread that runs its operations in order. */
#include "test/support/driver/bodies.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

__thread CUstreamCaptureMode fake_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static struct CUstream_st *streams;
static __thread struct CUstream_st *own; /* CU_STREAM_PER_THREAD, of the context it was used with */

static void op_free(struct fake_op *op)
{
	free(op->block);
	free(op);
}

/* Its memory is not freed: other streams may still compare with it. */
static void forget(const struct CUstream_st *s)
{
	struct CUstream_st **at = &streams;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
}

static void *work(void *arg)
{
	struct CUstream_st *s = arg;

	fake_lock();
	while (s->first || !s->destroyed) {
		struct fake_op *op = s->first;

		if (!op) {
			fake_wait();
			continue;
		}
		fake_unlock();
		op->run(op);
		fake_lock();
		s->first = op->next;
		if (!s->first)
			s->last = &s->first;
		s->done++;
		op_free(op);
		fake_changed();
	}
	forget(s);
	fake_unlock();
	return NULL;
}

struct CUstream_st *fake_stream_new(CUcontext context, unsigned int flags, int priority)
{
	struct CUstream_st *s = calloc(1, sizeof *s);
	sigset_t all, before;
	pthread_t id;

	s->context = context;
	s->flags = flags;
	s->priority = priority;
	s->last = &s->first;
	s->next = streams;
	streams = s;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&id, NULL, work, s))
		abort();
	pthread_detach(id);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s;
}

struct CUstream_st *fake_stream(CUstream handle)
{
	CUcontext c = fake_current();
	struct CUstream_st *s = streams;

	if (!handle)
		handle = fake_per_thread() ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (handle == CU_STREAM_LEGACY)
		return c ? c->legacy : NULL;
	if (handle == CU_STREAM_PER_THREAD && c) {
		if (!own || own->context != c || own->destroyed)
			own = fake_stream_new(c, 0, 0);
		return own;
	}
	while (s && (s != handle || s->destroyed))
		s = s->next;
	return s;
}

bool fake_stream_idle(const struct CUstream_st *s)
{
	return s->done == s->given;
}

bool fake_all_idle(CUcontext context)
{
	for (const struct CUstream_st *s = streams; s; s = s->next) {
		if ((!context || s->context == context) && !fake_stream_idle(s))
			return false;
	}
	return true;
}

struct CUstream_st *fake_streams(void)
{
	return streams;
}

struct CUstream_st *fake_capturing(CUcontext context)
{
	struct CUstream_st *s = streams;

	while (s &&
	       ((context && s->context != context) || s->capture == CU_STREAM_CAPTURE_STATUS_NONE))
		s = s->next;
	return s;
}

/* The stream's capture ends with it. */
static void destroy(struct CUstream_st *s)
{
	s->destroyed = true;
	s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
}

void fake_context_streams_end(CUcontext context)
{
	for (struct CUstream_st *s = streams; s; s = s->next) {
		if (s->context == context)
			destroy(s);
	}
	fake_changed();
	while (!fake_all_idle(context))
		fake_wait(); /* their memory may be unmapped next */
}

CUresult fake_not_in_capture(void)
{
	struct CUstream_st *s = fake_capturing(NULL);

	if (!s || s->captured.mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
	    fake_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	s->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* ---- operations ----------------------------------------------------------------------------- */

static void append(struct CUstream_st *s, const struct fake_op *op)
{
	struct fake_op *copy = malloc(sizeof *copy);

	*copy = *op;
	copy->next = NULL;
	copy->stream = s;
	if (op->block) {
		copy->block = malloc(op->block_size);
		memcpy(copy->block, op->block, op->block_size);
	}
	*s->last = copy;
	s->last = &copy->next;
	s->given++;
}

static void wait_for_stream(struct fake_op *op)
{
	const struct CUstream_st *s = (void *)(uintptr_t)op->args[0];

	fake_lock();
	while (s->done < op->args[1])
		fake_wait();
	fake_unlock();
}

/* The legacy default stream and all blocking streams wait for each other. */
static void order(struct CUstream_st *s)
{
	struct CUstream_st *legacy = s->context->legacy;
	struct fake_op op = {.run = wait_for_stream};

	for (struct CUstream_st *o = streams; o; o = o->next) {
		if (o == s || o->context != s->context || (o->flags & CU_STREAM_NON_BLOCKING) ||
		    (s->flags & CU_STREAM_NON_BLOCKING) || (s != legacy && o != legacy) ||
		    fake_stream_idle(o) || o->destroyed)
			continue;
		op.args[0] = (uintptr_t)o;
		op.args[1] = o->given;
		append(s, &op);
	}
}

CUresult fake_give(struct CUstream_st *s, const struct fake_op *op)
{
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->context->broken)
		return s->context->broken;
	if (s->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return fake_capture(s, op);
	order(s);
	append(s, op);
	fake_changed();
	return CUDA_SUCCESS;
}

void fake_mark_all(CUcontext context, struct fake_op *mark)
{
	for (struct CUstream_st *s = streams; s; s = s->next) {
		if (s->context == context && !fake_stream_idle(s)) {
			mark->args[1]++;
			append(s, mark);
		}
	}
	fake_changed();
}

/* ---- calls ---------------------------------------------------------------------------------- */

CUresult fake_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_lock();
	*stream = fake_stream_new(fake_current(), flags, priority);
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return fake_cuStreamCreateWithPriority(stream, flags, 0);
}

/* All green contexts of a device are its primary context. */
CUresult fake_cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags,
				     int priority)
{
	(void)green;
	return flags & CU_STREAM_NON_BLOCKING
		       ? fake_cuStreamCreateWithPriority(stream, flags, priority)
		       : CUDA_ERROR_INVALID_VALUE;
}

/* Its work is still done. */
CUresult fake_cuStreamDestroy_v2(CUstream stream)
{
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (s)
		destroy(s);
	fake_changed();
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamDestroy(CUstream stream)
{
	return fake_cuStreamDestroy_v2(stream);
}

/* A query of a stream in capture, or of a default stream on which the capture may depend, ends the
 * capture. */
static CUresult state_of(const struct CUstream_st *s)
{
	struct CUstream_st *c = s ? fake_capturing(s->context) : NULL;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->context->broken)
		return s->context->broken;
	if (c && (c == s || (s == s->context->legacy && !(c->flags & CU_STREAM_NON_BLOCKING)))) {
		c->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return fake_stream_idle(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult fake_cuStreamQuery(CUstream stream)
{
	CUresult rc;

	fake_lock();
	rc = fake_not_in_capture();
	if (!rc)
		rc = state_of(fake_stream(stream));
	fake_unlock();
	return rc;
}

CUresult fake_cuStreamSynchronize(CUstream stream)
{
	struct CUstream_st *s;
	CUresult rc;

	fake_lock();
	rc = fake_not_in_capture();
	s = rc ? NULL : fake_stream(stream);
	while (!rc && (rc = state_of(s)) == CUDA_ERROR_NOT_READY) {
		fake_wait();
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

static CUresult synchronize(CUcontext c)
{
	struct CUstream_st *captured;
	CUresult rc;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_lock();
	captured = fake_capturing(c);
	if (captured)
		captured->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	rc = captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : fake_not_in_capture();
	while (!rc && !fake_all_idle(c))
		fake_wait();
	if (!rc)
		rc = c->broken;
	fake_unlock();
	return rc;
}

CUresult fake_cuCtxSynchronize(void)
{
	return synchronize(fake_current());
}

CUresult fake_cuCtxSynchronize_v2(CUcontext c)
{
	return synchronize(c);
}

CUresult fake_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	const struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	*context = s ? s->context : NULL;
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	const struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	*flags = s ? s->flags : 0;
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamGetPriority(CUstream stream, int *priority)
{
	const struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	*priority = s ? s->priority : 0;
	fake_unlock();
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
