/* SPDX-License-Identifier: Apache-2.0
 * Contexts, which each thread has on a stack of its own; streams and events. */
#include "test/gpu/random/random.h"

#define DEEP 8
#define CREATED 2 /* contexts beside the primary one, at a time */

bool ends_contexts;

static struct {
	int v[DEEP], depth;
} stacks[THREADS];

static int pending = -1;    /* a stream whose work is not awaited yet */
static unsigned records;    /* of events, in all */

/* ---- contexts -------------------------------------------------------------------------------- */

int current(void)
{
	return stacks[thread].depth ? stacks[thread].v[stacks[thread].depth - 1] : -1;
}

/* Whether another thread has it, or this one below its top. */
static bool is_stacked(int context, bool but_my_top)
{
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < stacks[i].depth; k++) {
			if (stacks[i].v[k] == context &&
			    !(but_my_top && i == thread && k == stacks[i].depth - 1))
				return true;
		}
	}
	return false;
}

bool be_in(int context)
{
	if (!is(context, CONTEXT) || stacks[thread].depth == DEEP ||
	    cuCtxPushCurrent(H(CUcontext, context)))
		return false;
	stacks[thread].v[stacks[thread].depth++] = context;
	return true;
}

void be_back(void)
{
	CUcontext was;

	cuCtxPopCurrent(&was);
	stacks[thread].depth--;
}

static int primary(void)
{
	int i = n_objects - 1;

	while (i >= 0 && !(is(i, CONTEXT) && objects[i].flag))
		i--;
	return i;
}

static void retain(void)
{
	CUcontext c = NULL;
	int i = primary();

	if (DO(cuDevicePrimaryCtxRetain, &c, 0))
		return;
	if (i >= 0) {
		objects[i].uses++;
		say("the same %d", find(CONTEXT, c) == i);
	} else if ((i = hold(CONTEXT, c, -1)) >= 0) {
		objects[i].flag = true;
	}
}

/* Before a context ends: what the driver would leave useless. */
static void empty_context(int context)
{
	if (!be_in(context))
		return;
	cuCtxSynchronize();
	for (int i = 0; i < n_objects; i++) {
		if (objects[i].alive && objects[i].kind == HOST && objects[i].context == context)
			give_back(i);
	}
	end_textures_of(context);
	be_back();
}

static void end_context(int i)
{
	end(i);
	tidy_graphs();
}

static void release(void)
{
	int i = primary();

	if (i < 0)
		return;
	if (objects[i].uses == 1) {
		if (!ends_contexts || draw(3) || is_stacked(i, false))
			return;
		empty_context(i);
	}
	if (!DO(cuDevicePrimaryCtxRelease, 0) && --objects[i].uses == 0)
		end_context(i);
}

static int created(void)
{
	int n = 0;

	for (int i = 0; i < n_objects; i++)
		n += is(i, CONTEXT) && !objects[i].flag;
	return n;
}

static void create(void)
{
	CUcontext c = NULL;
	int i;

	if (stacks[thread].depth == DEEP || created() >= CREATED ||
	    DO(cuCtxCreate, &c, NULL, draw(2) ? CU_CTX_SCHED_BLOCKING_SYNC : 0, 0))
		return;
	i = hold(CONTEXT, c, -1);
	if (i >= 0)
		stacks[thread].v[stacks[thread].depth++] = i;
}

static void destroy(void)
{
	int i = any(CONTEXT);

	if (!ends_contexts || i < 0 || objects[i].flag || is_stacked(i, true))
		return;
	empty_context(i);
	if (DO(cuCtxDestroy, H(CUcontext, i)))
		return;
	if (current() == i)
		stacks[thread].depth--;
	end_context(i);
}

static void push(void)
{
	int i = any(CONTEXT);

	if (i >= 0 && stacks[thread].depth < DEEP && !DO(cuCtxPushCurrent, H(CUcontext, i)))
		stacks[thread].v[stacks[thread].depth++] = i;
}

static void pop(void)
{
	CUcontext c = NULL;

	if (DO(cuCtxPopCurrent, &c))
		return;
	say("the current one %d", find(CONTEXT, c) == current());
	stacks[thread].depth--;
}

static void set_current(void)
{
	int i = draw(8) ? any(CONTEXT) : -1;

	if (stacks[thread].depth == DEEP || DO(cuCtxSetCurrent, H(CUcontext, i)))
		return;
	stacks[thread].depth -= stacks[thread].depth > 0;
	if (i >= 0)
		stacks[thread].v[stacks[thread].depth++] = i;
}

static void look(void)
{
	static const CUlimit limits[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE,
					 CU_LIMIT_MALLOC_HEAP_SIZE};
	CUcontext c = NULL;
	size_t v = 0;
	int a = -1, b = -1;
	unsigned u = 0;

	if (!DO(cuCtxGetCurrent, &c))
		say("context %d, expected %d", c ? find(CONTEXT, c) : -1, current());
	if (!DO(cuCtxGetLimit, &v, limits[draw(3)]))
		say("limit %zu", v);
	if (!DO(cuCtxGetDevice, &a))
		say("device %d", a);
	if (!DO(cuCtxGetStreamPriorityRange, &a, &b))
		say("priorities %d to %d", a, b);
	if (!DO(cuCtxGetFlags, &u))
		say("flags 0x%x", u);
	if (!DO(cuCtxGetApiVersion, H(CUcontext, current()), &u) && current() >= 0)
		say("version %u", u);
	if (!DO(cuDevicePrimaryCtxGetState, 0, &u, &a))
		say("primary 0x%x %d", u, a);
}

static void set_limit(void)
{
	if (draw(2))
		DO(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 1024 * (size_t)(1 + draw(8)));
	else if (draw(4))
		DO(cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, (size_t)(1 + draw(4)) << 20);
	else
		DO(cuCtxSetLimit, CU_LIMIT_MAX, 1);
}

static void exchange_mode(void)
{
	CUstreamCaptureMode mode = (CUstreamCaptureMode)draw(3);

	if (!DO(cuThreadExchangeStreamCaptureMode, &mode))
		say("mode %d", (int)mode);
}

void context_step(void)
{
	static void (*const steps[])(void) = {retain, release, create, destroy, push, pop,
					      set_current, set_current, look, look, set_limit,
					      exchange_mode};

	steps[draw(sizeof steps / sizeof *steps)]();
}

/* Two threads have the primary context, one has one of its own. */
void begin_contexts(void)
{
	CUcontext c = NULL;
	int i;

	if (thread == 2)
		create();
	else if (primary() < 0)
		retain();
	i = primary();
	if (thread < 2 && !DO(cuCtxSetCurrent, H(CUcontext, i)))
		stacks[thread].v[stacks[thread].depth++] = i;
	DO(cuCtxGetCurrent, &c);
}

void end_threads_contexts(void)
{
	while (stacks[thread].depth)
		pop();
}

void end_contexts(void)
{
	for (int i = 0; i < n_objects; i++) {
		if (is(i, CONTEXT) && !objects[i].flag && !DO(cuCtxDestroy, H(CUcontext, i)))
			end(i);
		while (is(i, CONTEXT) && objects[i].uses) {
			DO(cuDevicePrimaryCtxRelease, 0);
			if (--objects[i].uses == 0)
				end(i);
		}
	}
}

/* ---- what is awaited ------------------------------------------------------------------------- */

void finish(int stream)
{
	if (stream >= 0 && draw(3) == 0)
		pending = stream;
	else if (stream >= 0)
		DO(cuStreamSynchronize, H(CUstream, stream));
	else
		DO(cuCtxSynchronize);
}

void settle(void)
{
	if (is(pending, STREAM)) {
		DO(cuStreamSynchronize, H(CUstream, pending));
		say_calls();
	}
	pending = -1;
}

/* ---- streams and events ---------------------------------------------------------------------- */

static void create_stream(void)
{
	CUstream s = NULL;

	if (draw(2) ? DO(cuStreamCreate, &s, draw(2))
		    : DO(cuStreamCreateWithPriority, &s, draw(2), -(int)draw(6)))
		return;
	hold(STREAM, s, current());
}

static void destroy_stream(void)
{
	int i = any(STREAM);

	if (i >= 0 && draw(2) && !DO(cuStreamDestroy, H(CUstream, i)))
		end(i);
}

static void look_at_stream(void)
{
	int i = any(STREAM), priority = 0;
	CUstreamCaptureStatus status;
	CUcontext c = NULL;
	unsigned flags = 0;

	if (i < 0)
		return;
	DO(cuStreamSynchronize, H(CUstream, i));
	DO(cuStreamQuery, H(CUstream, i));
	if (!DO(cuStreamGetFlags, H(CUstream, i), &flags) &&
	    !DO(cuStreamGetPriority, H(CUstream, i), &priority))
		say("flags %u, priority %d", flags, priority);
	if (!DO(cuStreamGetCtx, H(CUstream, i), &c))
		say("its context %d", find(CONTEXT, c) == objects[i].of);
	if (!DO(cuStreamIsCapturing, H(CUstream, i), &status))
		say("captures %d", (int)status);
}

static void create_event(void)
{
	static const unsigned flags[] = {CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC,
					 CU_EVENT_DISABLE_TIMING,
					 CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING};
	CUevent e = NULL;

	if (!DO(cuEventCreate, &e, flags[draw(4)]))
		hold(EVENT, e, current());
}

static void destroy_event(void)
{
	int i = any(EVENT);

	if (i >= 0 && draw(2) && !DO(cuEventDestroy, H(CUevent, i)))
		end(i);
}

/* One is recorded; another stream waits for it. */
static void record(void)
{
	int s = any_here(STREAM), e = any_here(EVENT), other = any_here(STREAM);

	if (s < 0 || e < 0)
		return;
	if (!(draw(4) ? DO(cuEventRecord, H(CUevent, e), H(CUstream, s))
		      : DO(cuEventRecordWithFlags, H(CUevent, e), H(CUstream, s), 0)))
		objects[e].size = ++records;
	DO(cuStreamWaitEvent, H(CUstream, other), H(CUevent, e), 0);
	if (draw(2))
		DO(cuEventSynchronize, H(CUevent, e));
	finish(other);
}

/* In the order in which they were recorded. A graph's are not known. */
static void look_at_events(void)
{
	int a = any_here(EVENT), b = any_here(EVENT);
	float ms = 0;

	if (a < 0 || objects[a].flag || objects[b].flag)
		return;
	DO(cuEventSynchronize, H(CUevent, a));
	DO(cuEventQuery, H(CUevent, b));
	if (!DO(cuEventElapsedTime, &ms, H(CUevent, a), H(CUevent, b)))
		say("in order %d", objects[a].size <= objects[b].size ? ms >= 0 : ms <= 0);
}

void stream_step(void)
{
	static void (*const steps[])(void) = {create_stream, create_stream, destroy_stream,
					      look_at_stream, look_at_stream, create_event,
					      create_event, destroy_event, record, record, record,
					      look_at_events, look_at_events};

	steps[draw(sizeof steps / sizeof *steps)]();
}
