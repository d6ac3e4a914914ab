/* SPDX-License-Identifier: Apache-2.0
 * A requeue: Slurm is asked while all ranks are held; if it refuses, they go on. */
#include "coordinator/core/operations/requeue.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation_members.h"
#include "coordinator/core/operations/step_timers.h"

#define AGAIN_MS 10000 /* after which Slurm is asked again whether it has requeued a job */

void gck_requeue_note(struct gck_core *core, uint32_t job, bool value)
{
	gck_core_note(core, json_pack("{s:s, s:I, s:b}", "t", "requeue", "job", (json_int_t)job,
				      "value", value), true);
}

/* Unless Slurm has requeued the job all the same (gck_requeue_recovered). */
static void let_go(struct gck_operation *op)
{
	gck_members_raise(op, HELD, FAILED, GCK_TIMEOUT);
}

static void on_requeued(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_operation *op = arg;
	struct gck_core *core = op->core;
	bool was = gck_defer(core);
	char why[400];

	if (answer->ok) {
		gck_info("job %u is requeued: %s", op->job, op->reason);
		gck_members_raise(op, HELD, LEFT, GCK_TAKEN);
	} else {
		snprintf(why, sizeof why, "Slurm does not requeue job %u: %s", op->job,
			 answer->error);
		gck_error_log("%s", why);
		gck_operation_error(op, NULL, why);
		let_go(op);
	}
	gck_operation_finish(op);
	gck_undefer(core, was);
}

/* Journal the request first: after a crash it is unknown whether Slurm was asked. */
static void ask_slurm(struct gck_operation *op)
{
	op->asking = true;
	gck_requeue_note(op->core, op->job, true);
	for (size_t i = 0; i < op->nmembers; i++)
		if (op->members[i].outcome == HELD)
			gck_hold_send(op->core, op->members[i].step);
	op->core->world->slurm(op->core, json_pack("{s:s, s:I}", "op", "requeue", "job",
						   (json_int_t)op->job), on_requeued, op);
}

/* Include steps that the script has begun since. Returns their number; -1: one cannot be included,
 * and the requeue fails. */
static int take_along(struct gck_operation *op)
{
	struct gck_job *job = gck_state_job(&op->core->state, op->job);
	int n = 0;

	for (struct gck_step *step = job ? job->steps : NULL; step; step = step->next) {
		if (!gck_members_may(step) || gck_members_find(op, step))
			continue;
		if (step->live->phase != GCK_IDLE || step->live->checkpoint.operation ||
		    gck_members_add(op, step)) {
			gck_operation_error(op, step, "it has just begun; try again");
			return -1;
		}
		gck_operation_start(op, &op->members[op->nmembers - 1]);
		n++;
	}
	return n;
}

static void call_off(struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++)
		if (op->members[i].outcome == GOING)
			gck_live_fail(op->members[i].step, ECANCELED,
				      "another step of the job could not be checkpointed: %s",
				      op->error);
	gck_members_raise(op, GOING, FAILED, GCK_CANCEL);
	let_go(op);
	gck_operation_finish(op);
}

static void leave_with_all(struct gck_operation *op)
{
	int others = take_along(op);

	if (others < 0)
		call_off(op);
	else if (!others)
		ask_slurm(op);
}

void gck_requeue_check(struct gck_operation *op)
{
	if (gck_members_count(op, FAILED)) {
		call_off(op);
	} else if (!gck_members_count(op, GOING) && !op->asking) {
		if (!gck_members_count(op, HELD)) {
			gck_operation_error(op, NULL,
					    "the steps of the job ended before they were held");
			gck_operation_finish(op);
		} else {
			leave_with_all(op);
		}
	}
}

/* ---- after a crash ------------------------------------------------------------------------- */

struct recovery {
	struct gck_core *core;
	uint32_t job, step;
};

/* Its next start may run already, whose agents have not registered yet. */
static bool runs_here(const json_t *job, const struct gck_step *step)
{
	return json_is_true(json_object_get(job, "runs")) &&
	       json_integer_value(json_object_get(job, "restarts")) == step->restarts;
}

static void take_job_state(struct gck_core *core, struct gck_step *step,
			   const struct gck_slurm_answer *answer)
{
	bool here = answer->ok && runs_here(answer->data, step);

	if (!answer->ok && answer->code != ENOENT) {
		gck_live_phase_timer(core, step, AGAIN_MS);
		return;
	}
	if (here)
		gck_requeue_note(core, step->job->id, false);
	gck_raise(core, step, here ? GCK_RELEASE : GCK_TAKEN);
}

static void on_job_state(void *arg, const struct gck_slurm_answer *answer)
{
	struct recovery *r = arg;
	struct gck_step *step = gck_state_step(&r->core->state, r->job, r->step);

	if (step && step->live && (step->live->phase == GCK_HELD || step->live->checkpoint.waits))
		take_job_state(r->core, step, answer);
	free(r);
}

bool gck_requeue_may_be(const struct gck_core *core, const struct gck_job *job)
{
	return job->requeued || gck_core_doubts(core, job);
}

void gck_requeue_recovered(struct gck_core *core, struct gck_step *step)
{
	struct recovery *r = gck_requeue_may_be(core, step->job) ? malloc(sizeof *r) : NULL;

	if (!r) {
		gck_raise(core, step, GCK_RELEASE);
		return;
	}
	*r = (struct recovery){core, step->job->id, step->id};
	core->world->slurm(core, json_pack("{s:s, s:I}", "op", "job", "job", (json_int_t)r->job),
			   on_job_state, r);
}
