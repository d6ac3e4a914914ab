/* SPDX-License-Identifier: Apache-2.0
 * Operations: their beginning, and reports about their members' checkpoints. */
#include "coordinator/core/operations/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "coordinator/core/operations/operation_members.h"
#include "coordinator/core/operations/requeue.h"

#define PROGRESS_MS 500 /* between two progress messages to waiters */
#define TRIES_MOST 4u     /* of a checkpoint, after the first, unless a patient client waits */
#define FIRST_PAUSE_MS 250u /* before the second try; doubled before each further one, ... */
#define DOUBLINGS 4u        /* ... at most so often */

/* Continue as far as the members allow. May free the operation. */
static void check(struct gck_operation *op)
{
	if (op->verb == GCK_REQUEUE) {
		gck_requeue_check(op);
		return;
	}
	gck_members_raise(op, HELD, LEAVING, GCK_TERMINATE);
	if (!gck_members_count(op, GOING) && !gck_members_count(op, HELD) &&
	    !gck_members_count(op, LEAVING))
		gck_operation_finish(op);
}

/* What becomes of a member is known: the others no longer wait for it. May free the operation. */
static void settle(struct gck_operation *op, struct member *m, enum outcome outcome)
{
	struct gck_core *core = op->core;
	bool was = gck_defer(core);

	m->outcome = outcome;
	gck_instant_check(op);
	check(op);
	gck_undefer(core, was);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static bool all_idle(const struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		const struct gck_live *live = op->members[i].step->live;

		if (gck_members_may(op->members[i].step) && (live->phase != GCK_IDLE ||
		    (live->checkpoint.operation && live->checkpoint.operation != op)))
			return false;
	}
	return true;
}

static void try_begin(struct gck_operation *op)
{
	const struct gck_job *job;
	bool any = false, requeued;

	if (op->begun || !all_idle(op))
		return;
	job = gck_state_job(&op->core->state, op->job);
	requeued = job && job->requeued;
	op->begun = true;
	op->begun_ms = op->core->world->now_ms();
	for (size_t i = 0; i < op->nmembers; i++)
		if (!requeued && gck_members_may(op->members[i].step))
			op->members[i].step->live->checkpoint.operation = op;
		else
			op->members[i].outcome = LEFT;
	for (size_t i = 0; i < op->nmembers; i++)
		if (op->members[i].outcome == GOING) {
			any = true;
			gck_operation_start(op, &op->members[i]);
		}
	if (!any) {
		gck_operation_error(op, NULL, requeued ? "the job was requeued meanwhile"
						       : "the step has ended");
		gck_operation_finish(op);
	}
}

static int may_begin(const struct gck_step *step, struct gck_error *err)
{
	if (step->disabled)
		return gck_fail(err, EPERM,
				"checkpoints of step %u.%u are disabled; enable them with "
				"`gpuckpt enable %u.%u`",
				step->job->id, step->id, step->job->id, step->id);
	if (step->live->phase <= GCK_STARTING)
		return gck_fail(err, EBUSY,
				"step %u.%u is being restarted (%s); wait until it runs",
				step->job->id, step->id, gck_phase_name(step->live->phase));
	return 0;
}

static int choose_steps(struct gck_operation *op, const struct gck_job *job, struct gck_error *err)
{
	for (struct gck_step *step = job->steps; step; step = step->next) {
		if (!gck_members_may(step) || (op->step != GCK_EVERY_STEP && op->step != step->id))
			continue;
		if (may_begin(step, err))
			return -1;
		if (gck_members_add(op, step))
			return gck_fail(err, ENOMEM, "no memory for an operation");
	}
	if (op->nmembers)
		return 0;
	if (op->step == GCK_EVERY_STEP)
		return gck_fail(err, ESRCH, "no step of job %u runs with --gpu-ckpt", job->id);
	return gck_fail(err, ESRCH, "step %u.%u does not run, or not with --gpu-ckpt", job->id,
			op->step);
}

static struct gck_operation *find_same(const struct gck_core *core, enum gck_verb verb,
				       uint32_t job, uint32_t step)
{
	struct gck_operation *op = core->operations;

	while (op && (op->verb != verb || op->job != job || op->step != step))
		op = op->next;
	return op;
}

static struct gck_operation *make(struct gck_core *core, enum gck_verb verb,
				  const struct gck_job *job, uint32_t step, const char *reason,
				  struct gck_error *err)
{
	struct gck_operation *op = calloc(1, sizeof *op);
	struct gck_operation **p = &core->operations;

	if (!op) {
		gck_fail(err, ENOMEM, "no memory for an operation");
		return NULL;
	}
	op->core = core;
	op->verb = verb;
	op->job = job->id;
	op->step = step;
	snprintf(op->reason, sizeof op->reason, "%s", reason);
	gck_utf8_sanitize(op->reason);
	if (choose_steps(op, job, err)) {
		gck_operation_free(op);
		return NULL;
	}
	while (*p)
		p = &(*p)->next;
	*p = op;
	return op;
}

int gck_operation_begin(struct gck_core *core, enum gck_verb verb, uint32_t job_id, uint32_t step,
			const char *reason, const struct gck_waiter *waiter, struct gck_error *err)
{
	struct gck_job *job = gck_state_job(&core->state, job_id);
	struct gck_operation *op;
	bool was;

	if (!job)
		return gck_fail(err, ESRCH, "no step of job %u runs with --gpu-ckpt", job_id);
	if (verb == GCK_REQUEUE && !job->batch)
		return gck_fail(err, EINVAL,
				"job %u cannot be requeued (it is no batch job, or --no-requeue "
				"was given); use create or vacate",
				job_id);
	if (verb == GCK_REQUEUE)
		step = GCK_EVERY_STEP; /* a requeue ends all steps */
	op = find_same(core, verb, job_id, step);
	if (!op && job->requeued)
		return gck_fail(err, EAGAIN, "job %u is requeued, or Slurm has not said yet "
				"whether it is; try again", job_id);
	if (!op)
		op = make(core, verb, job, step, reason, err);
	if (!op)
		return -1;
	if (waiter && gck_waiter_add(&op->waiters, waiter))
		return gck_fail(err, ENOMEM, "no memory for a client; the checkpoint goes on");
	was = gck_defer(core);
	try_begin(op);
	gck_undefer(core, was);
	return 0;
}

int gck_operation_ask(struct gck_core *core, struct gck_step *step, const char *reason,
		      const struct gck_waiter *waiter, struct gck_error *err)
{
	struct gck_operation *op = core->operations;

	gck_operation_leave(core, waiter->arg);
	while (op && !gck_members_find(op, step))
		op = op->next;
	if (!op)
		return gck_operation_begin(core, GCK_CREATE, step->job->id, step->id, reason,
					   waiter, err);
	if (gck_waiter_add(&op->waiters, waiter))
		return gck_fail(err, ENOMEM, "no memory for one that waits");
	return 0;
}

void gck_operation_meet(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);

	if (gck_members_find(op, step))
		gck_instant_check(op);
	else
		gck_instant_go(core, step);
}

void gck_operation_waited(const struct gck_step *step, const char *why)
{
	struct member *m = gck_members_find(gck_operation_of(step), step);

	if (m)
		json_object_set_new(m->result, "waited_for", json_string(why));
}

/* ---- tries --------------------------------------------------------------------------------- */

static unsigned pause_ms(const struct member *m)
{
	return FIRST_PAUSE_MS << (m->tries < DOUBLINGS ? m->tries : DOUBLINGS);
}

static bool may_try(const struct gck_operation *op, const struct member *m)
{
	return (m->tries < TRIES_MOST || gck_waiter_any_patient(op->waiters)) &&
	       op->core->world->now_ms() + pause_ms(m) <=
		       op->begun_ms + m->step->live->options.timeout_ms;
}

/* What is tried again is tried with all: one member at its limit is the limit. */
static bool all_may_try(const struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++)
		if (op->members[i].outcome == GOING && !may_try(op, &op->members[i]))
			return false;
	return gck_instant_open(op);
}

bool gck_operation_tries_again(struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);

	if (!m || m->outcome != GOING)
		return false;
	if (m->waits) /* it was called back */
		return true;
	if (!all_may_try(op))
		return false;
	m->waits = true;
	gck_operation_waited(step, step->live->error.text);
	gck_instant_call_back(op, m);
	return true;
}

/* The step is idle: no other operation may take it before its next try. */
static void reserve(struct gck_core *core, struct gck_step *step)
{
	for (struct gck_operation *op = core->operations; op; op = op->next) {
		const struct member *m = gck_members_find(op, step);

		if (!m || !m->waits || m->outcome != GOING)
			continue;
		step->live->checkpoint.operation = op;
		core->world->timer(core, step, GCK_TIMER_AGAIN, pause_ms(m));
		return;
	}
}

void gck_operation_again(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);

	if (!m || !m->waits)
		return;
	m->waits = false;
	m->tries++;
	if (step->live->phase == GCK_IDLE && !step->disabled)
		gck_operation_start(op, m);
	else
		gck_operation_failed(core, step, step->live->last_error);
}

/* ---- the wait for a step ------------------------------------------------------------------- */

void gck_operation_idle(struct gck_core *core, struct gck_step *step)
{
	if (step->live->phase == GCK_IDLE)
		reserve(core, step);
	for (struct gck_operation *op = core->operations, *next; op; op = next) {
		next = op->next;
		if (gck_members_find(op, step))
			try_begin(op);
	}
}

bool gck_operation_requeues(const struct gck_core *core, uint32_t job)
{
	for (const struct gck_operation *op = core->operations; op; op = op->next)
		if (op->job == job && op->verb == GCK_REQUEUE)
			return true;
	return false;
}

/* ---- what becomes of the members ----------------------------------------------------------- */

void gck_operation_phase(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);
	bool all_numbered = true;

	(void)core;
	if (!m)
		return;
	json_object_set_new(m->result, "seq", json_integer(step->live->checkpoint.seq));
	gck_waiter_tell_phase(op->waiters, step);
	for (size_t i = 0; i < op->nmembers; i++)
		all_numbered = all_numbered && json_object_get(op->members[i].result, "seq");
	if (all_numbered) {
		json_t *steps = gck_operation_results(op);

		gck_waiter_end_hasty(&op->waiters, steps);
		json_decref(steps);
	}
}

/* At most once per PROGRESS_MS, whatever the number of nodes. */
void gck_operation_progress(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);
	int64_t now = core->world->now_ms();

	if (!op || now - op->told_ms < PROGRESS_MS)
		return;
	op->told_ms = now;
	gck_waiter_tell_phase(op->waiters, step);
}

void gck_operation_committed(struct gck_core *core, struct gck_step *step, bool held)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);
	const struct gck_commit *c = gck_step_commit(step, step->live->checkpoint.seq);

	if (!m && held)
		gck_raise(core, step, GCK_RELEASE); /* no operation decides about the held ranks */
	if (!m)
		return;
	if (c && c->info)
		json_object_update(m->result, c->info);
	if (c)
		json_object_set_new(m->result, "hash", json_string(c->hash));
	gck_waiter_tell_phase(op->waiters, step);
	settle(op, m, held ? HELD : COMMITTED);
}

void gck_operation_failed(struct gck_core *core, struct gck_step *step, const char *why)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);

	(void)core;
	if (!m || m->outcome == FAILED)
		return;
	gck_operation_error(op, step, why);
	settle(op, m, FAILED);
}

void gck_operation_ended(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = gck_operation_of(step);
	struct member *m = gck_members_find(op, step);

	(void)core;
	if (!m)
		return;
	if (op->asking) {
		m->outcome = LEFT; /* Slurm's answer no longer concerns it */
		return;
	}
	if (m->outcome != LEAVING && op->verb != GCK_REQUEUE)
		gck_operation_error(op, step, "it ended before the checkpoint was complete");
	settle(op, m, LEFT);
}

void gck_operation_leave(struct gck_core *core, const void *arg)
{
	for (struct gck_operation *op = core->operations; op; op = op->next)
		gck_waiter_remove(&op->waiters, arg);
}

void gck_operation_free_all(struct gck_core *core)
{
	while (core->operations) {
		struct gck_operation *op = core->operations;

		core->operations = op->next;
		gck_operation_free(op);
	}
}
