/* SPDX-License-Identifier: Apache-2.0
 * Operations and their members, the steps that are checkpointed for them. */
#include "coordinator/daemon/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/daemon/waiter.h"

enum outcome {
	GOING,   /* under way, or not begun */
	COMMITTED, /* committed, its ranks run on */
	HELD,    /* committed, its ranks are held */
	LEAVING, /* its ranks are being ended */
	LEFT,    /* they have ended, as was wanted */
	FAILED,
};

struct member {
	struct gck_step *step;
	enum outcome outcome;
	json_t *result;
};

struct gck_operation {
	struct gck_operation *next;
	struct gck_core *core;
	enum gck_verb verb;
	uint32_t job, step;
	char reason[200];
	bool begun;    /* its checkpoints were started */
	bool asking;   /* Slurm's answer is waited for */
	char error[480];
	struct member *members;
	size_t nmembers;
	struct gck_waiter *waiters;
};

/* ---- members ------------------------------------------------------------------------------- */

static struct member *find_member(struct gck_operation *op, const struct gck_step *step)
{
	for (size_t i = 0; op && i < op->nmembers; i++)
		if (op->members[i].step == step)
			return &op->members[i];
	return NULL;
}

static int add_member(struct gck_operation *op, struct gck_step *step)
{
	struct member *m = realloc(op->members, (op->nmembers + 1) * sizeof *m);

	if (!m)
		return -1;
	op->members = m;
	m[op->nmembers++] = (struct member){.step = step, .result = json_object()};
	return 0;
}

static size_t count(const struct gck_operation *op, enum outcome outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < op->nmembers; i++)
		n += op->members[i].outcome == outcome;
	return n;
}

static void raise_all(struct gck_operation *op, enum outcome from, enum outcome to,
		      enum gck_event event)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		if (op->members[i].outcome != from)
			continue;
		op->members[i].outcome = to;
		gck_raise(op->core, op->members[i].step, event);
	}
}

static struct gck_operation *operation_of(const struct gck_step *step)
{
	return step->live ? step->live->checkpoint.operation : NULL;
}

static bool is_live(const struct gck_step *step)
{
	return step->live && step->live->phase != GCK_OVER && step->live->phase != GCK_DOOMED &&
	       step->live->phase != GCK_ENDING;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void operation_free(struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++)
		json_decref(op->members[i].result);
	gck_waiter_free_all(&op->waiters);
	free(op->members);
	free(op);
}

static json_t *results(const struct gck_operation *op)
{
	json_t *steps = json_array();

	for (size_t i = 0; i < op->nmembers; i++) {
		json_t *r = op->members[i].result;

		json_object_set_new(r, "job", json_integer(op->members[i].step->job->id));
		json_object_set_new(r, "step", json_integer(op->members[i].step->id));
		json_array_append(steps, r);
	}
	return steps;
}

static void finish(struct gck_operation *op)
{
	struct gck_operation **p = &op->core->operations;
	json_t *steps = results(op);

	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	for (size_t i = 0; i < op->nmembers; i++)
		if (operation_of(op->members[i].step) == op)
			op->members[i].step->live->checkpoint.operation = NULL;
	gck_waiter_end_all(&op->waiters, *op->error ? op->error : NULL, steps);
	json_decref(steps);
	operation_free(op);
}

static void note_error(struct gck_operation *op, const struct gck_step *step, const char *why)
{
	if (*op->error)
		return;
	if (step)
		snprintf(op->error, sizeof op->error, "step %u.%u: %s", step->job->id, step->id, why);
	else
		snprintf(op->error, sizeof op->error, "%s", why);
}

/* ---- requeue ------------------------------------------------------------------------------- */

static void note_requeue(struct gck_core *core, uint32_t job, bool value)
{
	gck_core_note(core, json_pack("{s:s, s:I, s:b}", "t", "requeue", "job", (json_int_t)job,
				      "value", value), true);
}

static void on_requeued(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_operation *op = arg;
	struct gck_core *core = op->core;
	bool was = gck_defer(core);
	char why[400];

	if (answer->ok) {
		gck_info("job %u is requeued: %s", op->job, op->reason);
		raise_all(op, HELD, LEFT, GCK_TAKEN);
	} else {
		snprintf(why, sizeof why, "Slurm does not requeue job %u: %s; its ranks go on", op->job,
			 answer->error);
		gck_error_log("%s", why);
		note_error(op, NULL, why);
		note_requeue(core, op->job, false);
		raise_all(op, HELD, FAILED, GCK_RELEASE);
	}
	finish(op);
	gck_undefer(core, was);
}

/* That it will be asked is journaled first: after a crash nobody knows whether it was. */
static void ask_slurm(struct gck_operation *op)
{
	op->asking = true;
	note_requeue(op->core, op->job, true);
	op->core->world->slurm(op->core, json_pack("{s:s, s:I}", "op", "requeue", "job",
						   (json_int_t)op->job), on_requeued, op);
}

static void start(struct gck_operation *op, struct member *m)
{
	struct gck_checkpoint *c = &m->step->live->checkpoint;

	c->operation = op;
	c->keep_held = op->verb != GCK_CREATE;
	snprintf(c->reason, sizeof c->reason, "%s", op->reason);
	gck_raise(op->core, m->step, GCK_START);
}

/* The script may have begun another step since: it is taken along, or the requeue is off. True if
 * there was one. */
static bool take_along(struct gck_operation *op)
{
	struct gck_job *job = gck_state_job(&op->core->state, op->job);
	bool any = false;

	for (struct gck_step *step = job ? job->steps : NULL; step; step = step->next) {
		if (!is_live(step) || find_member(op, step))
			continue;
		any = true;
		if (step->live->phase != GCK_IDLE || step->live->checkpoint.operation ||
		    add_member(op, step)) {
			note_error(op, step, "it has just begun; try again");
			raise_all(op, HELD, FAILED, GCK_RELEASE);
			return true;
		}
		start(op, &op->members[op->nmembers - 1]);
	}
	return any;
}

static void check_requeue(struct gck_operation *op)
{
	if (count(op, FAILED)) {
		for (size_t i = 0; i < op->nmembers; i++)
			if (op->members[i].outcome == GOING)
				gck_live_fail(op->members[i].step, ECANCELED, "another step of the job "
					      "could not be checkpointed: %s", op->error);
		raise_all(op, GOING, FAILED, GCK_CANCEL);
		raise_all(op, HELD, FAILED, GCK_RELEASE);
		finish(op);
	} else if (!count(op, GOING) && !op->asking) {
		if (!count(op, HELD)) {
			note_error(op, NULL, "the steps of the job ended before they were held");
			finish(op);
		} else if (!take_along(op)) {
			ask_slurm(op);
		} else if (*op->error) {
			finish(op);
		}
	}
}

/* Go on with what can be done now. May free the operation. */
static void check(struct gck_operation *op)
{
	if (op->verb == GCK_REQUEUE) {
		check_requeue(op);
		return;
	}
	raise_all(op, HELD, LEAVING, GCK_TERMINATE);
	if (!count(op, GOING) && !count(op, HELD) && !count(op, LEAVING))
		finish(op);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static bool all_idle(const struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		const struct gck_live *live = op->members[i].step->live;

		if (is_live(op->members[i].step) && (live->phase != GCK_IDLE ||
		    (live->checkpoint.operation && live->checkpoint.operation != op)))
			return false;
	}
	return true;
}

static void try_begin(struct gck_operation *op)
{
	bool any = false;

	if (op->begun || !all_idle(op))
		return;
	op->begun = true;
	for (size_t i = 0; i < op->nmembers; i++)
		if (is_live(op->members[i].step))
			op->members[i].step->live->checkpoint.operation = op;
		else
			op->members[i].outcome = LEFT;
	for (size_t i = 0; i < op->nmembers; i++)
		if (op->members[i].outcome == GOING) {
			any = true;
			start(op, &op->members[i]);
		}
	if (!any) {
		note_error(op, NULL, "the step has ended");
		finish(op);
	}
}

static int may_begin(const struct gck_step *step, struct gck_error *err)
{
	if (step->disabled)
		return gck_fail(err, EPERM, "checkpoints of step %u.%u are disabled; enable them with "
				"`gpuckpt enable %u.%u`", step->job->id, step->id, step->job->id, step->id);
	if (step->live->phase <= GCK_STARTING)
		return gck_fail(err, EBUSY, "step %u.%u is being restarted (%s); wait until it runs",
				step->job->id, step->id, gck_phase_name(step->live->phase));
	return 0;
}

static int choose_steps(struct gck_operation *op, const struct gck_job *job, struct gck_error *err)
{
	for (struct gck_step *step = job->steps; step; step = step->next) {
		if (!is_live(step) || (op->step != GCK_EVERY_STEP && op->step != step->id))
			continue;
		if (may_begin(step, err))
			return -1;
		if (add_member(op, step))
			return gck_fail(err, ENOMEM, "no memory for an operation");
	}
	if (op->nmembers)
		return 0;
	if (op->step == GCK_EVERY_STEP)
		return gck_fail(err, ESRCH, "no step of job %u runs with --gpu-ckpt", job->id);
	return gck_fail(err, ESRCH, "step %u.%u does not run, or not with --gpu-ckpt", job->id, op->step);
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
	if (choose_steps(op, job, err)) {
		operation_free(op);
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
		return gck_fail(err, EINVAL, "job %u is not a batch job: Slurm cannot requeue it; use "
				"create or vacate", job_id);
	if (verb == GCK_REQUEUE)
		step = GCK_EVERY_STEP; /* a requeue ends them all */
	op = find_same(core, verb, job_id, step);
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

void gck_operation_idle(struct gck_core *core, struct gck_step *step)
{
	for (struct gck_operation *op = core->operations, *next; op; op = next) {
		next = op->next;
		if (find_member(op, step))
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
	struct gck_operation *op = operation_of(step);
	struct member *m = find_member(op, step);
	bool all_numbered = true;

	(void)core;
	if (!m)
		return;
	json_object_set_new(m->result, "seq", json_integer(step->live->checkpoint.seq));
	gck_waiter_tell_phase(op->waiters, step);
	for (size_t i = 0; i < op->nmembers; i++)
		all_numbered = all_numbered && json_object_get(op->members[i].result, "seq");
	if (all_numbered) {
		json_t *steps = results(op);

		gck_waiter_end_hasty(&op->waiters, steps);
		json_decref(steps);
	}
}

void gck_operation_committed(struct gck_core *core, struct gck_step *step, bool held)
{
	struct gck_operation *op = operation_of(step);
	struct member *m = find_member(op, step);
	const struct gck_commit *c = gck_step_commit(step, step->live->checkpoint.seq);

	(void)core;
	if (!m)
		return;
	if (c && c->info)
		json_object_update(m->result, c->info);
	if (c)
		json_object_set_new(m->result, "hash", json_string(c->hash));
	gck_waiter_tell_phase(op->waiters, step);
	m->outcome = held ? HELD : COMMITTED;
	check(op);
}

void gck_operation_failed(struct gck_core *core, struct gck_step *step, const char *why)
{
	struct gck_operation *op = operation_of(step);
	struct member *m = find_member(op, step);

	(void)core;
	if (!m || m->outcome == FAILED)
		return;
	note_error(op, step, why);
	m->outcome = FAILED;
	check(op);
}

void gck_operation_ended(struct gck_core *core, struct gck_step *step)
{
	struct gck_operation *op = operation_of(step);
	struct member *m = find_member(op, step);

	(void)core;
	if (!m)
		return;
	if (op->asking) {
		m->outcome = LEFT; /* Slurm's answer no longer concerns it */
		return;
	}
	if (m->outcome != LEAVING && op->verb != GCK_REQUEUE)
		note_error(op, step, "it ended before the checkpoint was complete");
	m->outcome = LEFT;
	check(op);
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
		operation_free(op);
	}
}

/* ---- after a crash ------------------------------------------------------------------------- */

struct recovery {
	struct gck_core *core;
	uint32_t job, step;
};

static void on_job_state(void *arg, const struct gck_slurm_answer *answer)
{
	struct recovery *r = arg;
	struct gck_step *step = gck_state_step(&r->core->state, r->job, r->step);
	bool taken = answer->ok ? !json_is_true(json_object_get(answer->data, "runs")) :
		     answer->code == ENOENT;

	if (step && step->live && step->live->phase == GCK_HELD) {
		if (!taken)
			note_requeue(r->core, r->job, false);
		gck_raise(r->core, step, taken ? GCK_TAKEN : GCK_RELEASE);
	}
	free(r);
}

void gck_operation_recovered(struct gck_core *core, struct gck_step *step)
{
	struct recovery *r = step->job->requeued ? malloc(sizeof *r) : NULL;

	if (!r) {
		gck_raise(core, step, GCK_RELEASE);
		return;
	}
	*r = (struct recovery){core, step->job->id, step->id};
	core->world->slurm(core, json_pack("{s:s, s:I}", "op", "job", "job", (json_int_t)r->job),
			   on_job_state, r);
}
