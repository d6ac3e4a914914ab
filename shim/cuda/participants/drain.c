/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/participants/drain.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/engine/engine.h"
#include "shim/cuda/gate/backlog.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/gate/pace.h"
#include "shim/inside/gate.h"

/* ---- the participants ----------------------------------------------------------------------- */

/* The last to resume. */
static int driver_complete(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	(void)order;
	if (!restored || !gck_cuda_engine()->complete)
		return 0;
	return gck_cuda_engine()->complete(err);
}

static void driver_release(void)
{
	if (gck_cuda_engine()->release)
		gck_cuda_engine()->release();
}

static const struct gck_cuda_participant driver_part = {
	.name = "driver", .resume = driver_complete, .release = driver_release,
};

/* In the order in which they drain, NULL at the end. Memory goes before the stacks shrink, since
 * copies on the device use no stacks, and what is cheap to take back comes last. */
static const struct gck_cuda_participant *const parts[] = {
	&driver_part,
	&gck_cuda_obstacles_participant,
	&gck_cuda_unknown_participant,
	&gck_cuda_pool_participant,
	&gck_cuda_managed_participant,
	&gck_cuda_memory_participant,
	&gck_cuda_limits_participant,
	&gck_cuda_registration_participant,
	NULL,
};

static bool takes_part(const struct gck_cuda_participant *p)
{
	return !p->image_only || !gck_cuda_state.replays;
}

static void parts_able(gck_cuda_obstacle_fn *tell, void *arg)
{
	for (size_t i = 0; parts[i]; i++) {
		if (parts[i]->able && takes_part(parts[i]))
			parts[i]->able(tell, arg);
	}
}

void gck_cuda_able(gck_cuda_obstacle_fn *tell, void *arg)
{
	gck_cuda_engine_able(tell, arg);
	parts_able(tell, arg);
}

/* ---- the steps ------------------------------------------------------------------------------ */

#define MS 1000000ll

/* Of the drain under way; in the image, too. */
static struct gck_cuda_order order;
static size_t drained; /* participants that have drained or begun to */

/* Who is told of a failure before the drain is undone. */
static struct {
	gck_cuda_fails_fn *fails;
	void *arg;
	atomic_flag told;
} on_failure;

/* Keep the first obstacle as the error. */
static void refuse(void *arg, const char *object, const char *reason, const char *remedy)
{
	struct gck_error *err = arg;

	if (!err->code)
		gck_fail(err, EBUSY, "%s: %s; %s", object, reason, remedy);
}

static int drain_parts(struct gck_error *err)
{
	while (parts[drained]) {
		const struct gck_cuda_participant *p = parts[drained++];

		if (p->drain && takes_part(p) && p->drain(&order, err))
			return gck_fail_in(err, "%s", p->name);
	}
	return 0;
}

static int drain_all(struct gck_error *err)
{
	const struct gck_cuda_engine *engine = gck_cuda_engine_able(refuse, err);

	if (engine)
		gck_cuda_engine_use(engine);
	parts_able(refuse, err);
	if (err->code || drain_parts(err))
		return -1;
	return gck_cuda_engine()->down(order.end_ns, err);
}

static int resume_parts(bool restored, struct gck_error *err)
{
	int failed = 0;

	for (; drained; drained--) {
		const struct gck_cuda_participant *p = parts[drained - 1];

		if (p->resume && takes_part(p) &&
		    p->resume(&order, restored, failed ? NULL : err))
			failed = -1; /* the others resume all the same */
	}
	gck_cuda_contexts_give(&order.contexts);
	return failed;
}

void gck_cuda_release(void)
{
	gck_cuda_pace_end();
	for (size_t i = 0; parts[i]; i++) {
		if (parts[i]->release && takes_part(parts[i]))
			parts[i]->release();
	}
}

static void take_order(const struct gck_link_cuda_drain *request)
{
	order.end_ns = gck_cuda_now_ns() + request->limit_ms * MS;
	memcpy(order.device_copy_max, request->device_copy_max, sizeof order.device_copy_max);
	order.host_copy_max = request->host_copy_max;
}

void gck_cuda_prepare(const struct gck_link_cuda_drain *request)
{
	take_order(request);
	for (size_t i = 0; parts[i]; i++) {
		if (parts[i]->prepare && takes_part(parts[i]))
			parts[i]->prepare(&order);
	}
	gck_cuda_pace_begin();
	gck_cuda_backlog_begin();
}

bool gck_cuda_prepared(bool *over)
{
	bool seen, done = gck_cuda_queue_done(order.end_ns, &seen);

	*over = gck_cuda_now_ns() > order.end_ns;
	return done || (*over && !seen);
}

static int quiesce(struct gck_error *err)
{
	int failed;

	gck_cuda_pace_begin();
	failed = gck_cuda_quiesce(order.end_ns, &order.contexts, err);
	gck_cuda_pace_end();
	return failed;
}

static void drain_fails(const struct gck_error *why)
{
	struct gck_error err = *why;

	if (atomic_flag_test_and_set(&on_failure.told))
		return;
	gck_fail_in(&err, "%s", parts[drained - 1]->name);
	on_failure.fails(on_failure.arg, &err);
}

int gck_cuda_drain(const struct gck_link_cuda_drain *request, gck_cuda_fails_fn *fails, void *arg,
		   bool *lost, struct gck_error *err)
{
	struct gck_error why = {0}, back = {0};

	*lost = false;
	on_failure.fails = fails;
	on_failure.arg = arg;
	atomic_flag_clear(&on_failure.told);
	gck_cuda_stream_wait_tells(drain_fails);
	take_order(request);
	if (quiesce(err)) {
		*lost = gck_cuda_follow_settle(0, err) != 0;
		return -1;
	}
	if (drain_all(&why) == 0)
		return 0;
	if (resume_parts(false, &back) || gck_cuda_follow_settle(0, &back)) {
		*lost = true;
		return gck_fail(err, back.code, "%s, after: %s", back.text, why.text);
	}
	gck_gate_open();
	return gck_fail(err, why.code, "%s", why.text);
}

int gck_cuda_resume(gck_cuda_source_fn *source, void *arg, struct gck_error *err)
{
	order.source = source;
	order.source_arg = arg;
	if (gck_cuda_engine()->up(source != NULL, err) || resume_parts(source != NULL, err) ||
	    gck_cuda_follow_settle(0, err))
		return -1;
	gck_gate_open();
	return 0;
}
