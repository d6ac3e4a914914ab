/* SPDX-License-Identifier: Apache-2.0
 * The ends of a checkpoint without a commit, and of a step. */
#include "coordinator/core/actions/ending.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/actions/actions.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/requeue.h"
#include "coordinator/core/operations/step_timers.h"

#define ABORT_MS 10000  /* the wait for agents to confirm that ranks are released */
#define END_MS 60000    /* ... for ranks to end that were told to */
#define KILL_MS 600000  /* ... for Slurm to end a job that it has requeued (KillWait) */
#define ALONE_MS 300000 /* ... for any agent of a step that has none connected */

/* ---- ranks go on ---------------------------------------------------------------------------- */

void gck_act_recount(struct gck_core *core, struct gck_step *step)
{
	if (gck_live_all_answered(step->live, true))
		gck_raise(core, step, GCK_ALL);
}

static void all_answered(struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		live->nodes[i].answered = true;
}

/* Each reason is said once, until a checkpoint is committed. */
static void say_failed(struct gck_core *core, const struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (!strcmp(live->said_error, live->last_error))
		return;
	memcpy(live->said_error, live->last_error, sizeof live->said_error);
	if (live->checkpoint.seq)
		gck_live_say(core, step, "step %u.%u: checkpoint %u has failed: %s", step->job->id,
			     step->id, live->checkpoint.seq, live->last_error);
	else
		gck_live_say(core, step, "step %u.%u: no checkpoint: %s", step->job->id, step->id,
			     live->last_error);
}

static void remember_error(struct gck_core *core, struct gck_live *live)
{
	if (!*live->error.text)
		gck_fail(&live->error, ECANCELED, "given up");
	memcpy(live->last_error, live->error.text, sizeof live->last_error);
	live->last_error_time = core->world->now_ms() / 1000;
	memset(&live->error, 0, sizeof live->error);
}

json_t *gck_abort_order(const struct gck_step *step)
{
	json_t *body = gck_live_order("abort", step);

	json_object_set_new(body, "why", json_string(step->live->last_error));
	return body;
}

static void order_abort(struct gck_core *core, struct gck_step *step)
{
	step->live->checkpoint.waits = false;
	gck_live_ask_all(core, step, gck_abort_order(step));
	gck_live_phase_timer(core, step, ABORT_MS);
}

/* Ranks that are held to be requeued go on only if Slurm has not requeued the job meanwhile. */
static void let_go(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (!live->checkpoint.keep_held || !step->job->requeued) {
		order_abort(core, step);
		return;
	}
	live->checkpoint.waits = true;
	for (uint32_t i = 0; i < live->nnodes; i++)
		live->nodes[i].answered = false;
	gck_live_phase_timer(core, step, 0);
	gck_requeue_recovered(core, step);
}

void gck_act_abort_go(struct gck_core *core, struct gck_step *step)
{
	if (step->live->checkpoint.waits)
		order_abort(core, step);
}

void gck_act_abort_late(struct gck_core *core, struct gck_step *step)
{
	if (step->live->checkpoint.waits)
		gck_requeue_recovered(core, step);
	else
		gck_raise(core, step, GCK_ALL);
}

/* unheard: nobody told whether its commit object was written. */
static void give_up(struct gck_core *core, struct gck_step *step, bool unheard)
{
	struct gck_live *live = step->live;
	struct gck_checkpoint *c = &live->checkpoint;
	bool tried = live->error.code == EAGAIN && gck_operation_tries_again(step);

	remember_error(core, live);
	live->failures += !tried;
	for (uint32_t i = 0; i < live->nnodes; i++)
		gck_node_clear_words(&live->nodes[i]);
	if (c->seq) {
		json_t *r = gck_record_seq(step, "abort", c->seq);

		json_object_set_new(r, "why", json_string(live->last_error));
		json_object_set_new(r, "unheard", json_boolean(unheard));
		gck_warn("step %u.%u: checkpoint %u is aborted, its ranks go on%s: %s",
			 step->job->id, step->id, c->seq, tried ? ", and it is tried again" : "",
			 live->last_error);
		/* Agents first: ranks may be held, and the order cannot be taken back. */
		let_go(core, step);
		gck_core_note(core, r, true);
	} else {
		gck_warn("step %u.%u: no checkpoint: %s", step->job->id, step->id,
			 live->last_error);
		all_answered(live); /* nobody was sent an order */
	}
	if (!tried) {
		say_failed(core, step);
		gck_operation_failed(core, step, live->last_error);
	}
	gck_act_recount(core, step);
}

void gck_act_abort(struct gck_core *core, struct gck_step *step)
{
	give_up(core, step, false);
}

void gck_act_unheard(struct gck_core *core, struct gck_step *step)
{
	give_up(core, step, true);
}

void gck_act_release(struct gck_core *core, struct gck_step *step)
{
	gck_info("step %u.%u: its held ranks go on", step->job->id, step->id);
	gck_live_phase_timer(core, step, ABORT_MS);
	gck_live_ask_all(core, step, gck_live_order("resume", step));
	if (step->live->checkpoint.keep_held)
		gck_operation_failed(core, step, "its ranks did not end in time; they go on");
	gck_act_recount(core, step);
}

void gck_act_idle(struct gck_core *core, struct gck_step *step)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	gck_act_alone(core, step);
	gck_checkpoint_clear(c);
	gck_interval_arm(core, step);
	gck_operation_idle(core, step);
}

/* ---- ranks end ------------------------------------------------------------------------------ */

static json_t *terminate_order(const struct gck_step *step)
{
	json_t *body = gck_live_order("terminate", step);

	json_object_set_new(body, "why", json_string(step->live->checkpoint.reason));
	return body;
}

void gck_act_terminate(struct gck_core *core, struct gck_step *step)
{
	step->live->checkpoint.terminating = true;
	gck_live_phase_timer(core, step, END_MS);
	gck_live_send_all(core, step, terminate_order(step));
	gck_act_ended(core, step);
}

void gck_act_end_again(struct gck_core *core, struct gck_step *step)
{
	if (step->live->checkpoint.terminating)
		gck_live_send_all(core, step, terminate_order(step));
}

void gck_act_taken(struct gck_core *core, struct gck_step *step)
{
	step->live->checkpoint.waits = false;
	gck_live_phase_timer(core, step, KILL_MS);
	gck_hold_send(core, step); /* it is certain now */
	gck_act_ended(core, step);
}

/* The next start of a job that Slurm has requeued may run: whatever Slurm does not end here stays
 * held. */
void gck_act_end_late(struct gck_core *core, struct gck_step *step)
{
	if (!step->job->requeued) {
		gck_raise(core, step, GCK_RELEASE);
		return;
	}
	gck_warn("step %u.%u: its job is requeued, and Slurm has not ended its ranks: they stay "
		 "held", step->job->id, step->id);
	gck_live_phase_timer(core, step, KILL_MS);
}

void gck_act_ended(struct gck_core *core, struct gck_step *step)
{
	if (!gck_live_any_here(step->live))
		gck_raise(core, step, GCK_ENDED);
}

/* All of its agents may have died, with or without their nodes. A step that no agent comes back to
 * has ended and must not block its job's next requeue. */
void gck_act_alone(struct gck_core *core, struct gck_step *step)
{
	gck_live_phase_timer(core, step, gck_live_any_here(step->live) ? 0 : ALONE_MS);
}

void gck_act_over(struct gck_core *core, struct gck_step *step)
{
	gck_live_phase_timer(core, step, 0);
	core->world->timer(core, step, GCK_TIMER_INTERVAL, 0);
	core->world->timer(core, step, GCK_TIMER_AGAIN, 0);
	/* The intent stays open if its commit may have been written: the next start looks for
	 * it. */
	if (step->intent.seq && !step->intent.committing)
		gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
	gck_operation_ended(core, step);
	gck_checkpoint_clear(&step->live->checkpoint);
	gck_info("step %u.%u has ended", step->job->id, step->id);
	gck_operation_idle(core, step);
}

/* ---- is the step finished? ------------------------------------------------------------------ */

struct question {
	struct gck_core *core;
	uint32_t job, step, restarts;
};

static bool all_succeeded(const struct gck_step *step)
{
	for (uint32_t i = 0; i < step->ntasks; i++)
		if (step->exits[i] != 0)
			return false;
	return true;
}

static void on_job_state(void *arg, const struct gck_slurm_answer *answer)
{
	struct question *q = arg;
	struct gck_step *step = gck_state_step(&q->core->state, q->job, q->step);
	json_int_t restarts = json_integer_value(json_object_get(answer->data, "restarts"));

	if (step) {
		step->asking = false;
		step->asked = answer->ok || answer->code == ENOENT;
	}
	/* Without an answer the step is not finished: a restart goes back to its last commit. */
	if (step && !step->finished && step->restarts == q->restarts && answer->ok &&
	    restarts == q->restarts && json_is_true(json_object_get(answer->data, "ends_itself")) &&
	    all_succeeded(step)) {
		gck_info("step %u.%u is finished", step->job->id, step->id);
		gck_core_note(q->core, gck_record(step, "finished"), true);
	}
	free(q);
}

void gck_finish_check(struct gck_core *core, struct gck_step *step)
{
	struct question *q;

	if (step->finished || step->asking || step->asked || !all_succeeded(step))
		return;
	q = malloc(sizeof *q);
	if (!q)
		return;
	*q = (struct question){core, step->job->id, step->id, step->restarts};
	step->asking = true;
	core->world->slurm(core, json_pack("{s:s, s:I}", "op", "job", "job", (json_int_t)q->job),
			   on_job_state, q);
}

void gck_finish_check_all(struct gck_core *core)
{
	for (struct gck_job *job = core->state.jobs; job; job = job->next)
		for (struct gck_step *step = job->gone ? NULL : job->steps; step; step = step->next)
			gck_finish_check(core, step);
}
