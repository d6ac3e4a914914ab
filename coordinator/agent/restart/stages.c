/* SPDX-License-Identifier: Apache-2.0
 * The stages of a restart on this node: from one to the next when all ranks are done, or to its
 * failure. */
#include "coordinator/agent/restart/stages.h"

#include "common/base/log.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/restart/common_restore.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/upstream/upstream.h"

/* The command that the coordinator waits for, which a failure answers. */
static const char *asked(const struct restart *r)
{
	if (r->stage <= STAGE_BUILT)
		return "build";
	return r->stage == STAGE_RUNNING || r->run_asked ? "run" : "files";
}

void restart_fail(struct restart *r, const struct task *t, const struct gck_error *err)
{
	if (r->stage == STAGE_FAILED)
		return;
	r->why = *err;
	r->failed_rank = t->rank;
	gck_fail_in(&r->why, "rank %u on %s", r->failed_rank, r->agent->step->node);
	say_to_user(&r->agent->tasks, "restart from commit %u: %s", r->seq, r->why.text);
	answer_failed(r->agent, r->seq, asked(r), &r->why, &r->failed_rank);
	r->stage = STAGE_FAILED;
	ev_timer_stop(r->agent->loop, &r->tick);
	ev_timer_stop(r->agent->loop, &r->look);
	ev_timer_stop(r->agent->loop, &r->rebuild);
}

static bool all_reached(const struct restart *r, enum stage stage)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->ranks[i].reached < stage)
			return false;
	return true;
}

void stages_tell(struct restart *r, void (*tell)(struct rank_restart *))
{
	for (size_t i = 0; i < r->n && r->stage != STAGE_FAILED; i++)
		tell(&r->ranks[i]);
}

void stages_answer_built(struct restart *r)
{
	json_t *exited = json_array();
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->n; i++) {
		bytes += r->ranks[i].all;
		if (r->ranks[i].exit >= 0)
			json_array_append_new(exited, json_pack("{s:I, s:I}", "rank",
				(json_int_t)r->ranks[i].task->rank, "status", r->ranks[i].exit));
	}
	json_decref(answer_done(r->agent, r->seq, "build", json_pack("{s:o, s:I, s:f}", "exited",
				exited, "bytes", (json_int_t)bytes, "seconds",
				ev_now(r->agent->loop) - r->began)));
}

/* The step runs from here on: links that come later are answered with GO. */
static void answer_ran(struct restart *r)
{
	r->stage = STAGE_DONE;
	ev_timer_stop(r->agent->loop, &r->rebuild);
	r->agent->ops->open(r->agent);
	answer_plain(r->agent, r->seq, "run");
}

void stages_file(struct restart *r)
{
	r->stage = STAGE_FILING;
	r->touched = true;
	stages_tell(r, rank_restart_files);
}

static void reopen(struct restart *r)
{
	r->stage = STAGE_REOPENING;
	common_restore_forget(r);
	stages_tell(r, rank_restart_reopen);
}

void stages_run(struct restart *r)
{
	r->stage = STAGE_RUNNING;
	r->agent->lasting->restored = 1;
	ev_timer_again(r->agent->loop, &r->rebuild);
	stages_tell(r, rank_restart_run);
}

static void filed(struct restart *r)
{
	r->stage = STAGE_FILED;
	if (r->files_asked)
		answer_plain(r->agent, r->seq, "files");
	if (r->run_asked)
		stages_run(r);
}

void restart_advance(struct restart *r)
{
	if (r->stage == STAGE_BUILDING && all_reached(r, STAGE_BUILT)) {
		r->stage = STAGE_BUILT;
		ev_timer_stop(r->agent->loop, &r->tick);
		stages_answer_built(r);
	} else if (r->stage == STAGE_FILING && all_reached(r, STAGE_REOPENING)) {
		reopen(r);
	} else if (r->stage == STAGE_REOPENING && all_reached(r, STAGE_FILED)) {
		filed(r);
	}
	if (r->stage == STAGE_RUNNING && all_reached(r, STAGE_DONE))
		answer_ran(r);
}

void restart_task_ended(struct restart *r, struct task *t)
{
	struct gck_error err = { 0 };

	gck_fail(&err, ESRCH, "it ended (status %d) before it was restored", t->status);
	if (r->stage == STAGE_STARTING)
		restart_fail(r, t, &err);
	for (size_t i = 0; i < r->n; i++)
		if (r->ranks[i].task == t && r->ranks[i].reached < STAGE_DONE)
			rank_restart_ended(&r->ranks[i]);
	restart_advance(r);
}

/* ---- MPI and CUDA come back ---------------------------------------------------------------- */

static const char *const part_names[RESTART_PARTS] = {
	[RESTART_MPI] = "MPI", [RESTART_CUDA] = "GPU",
};

/* No restart waits for this rank any more: the step counts as running, but cannot run. If this
 * agent was started during the restart, the coordinator's next command fails and the job is
 * requeued. */
static void end_half_restored(struct agent *a, const struct task *t, struct gck_error *why)
{
	gck_fail_in(why, "rank %u on %s", t->rank, a->step->node);
	gck_warn("%s", why->text);
	if (a->lasting->released)
		a->ops->end_ranks(a, why->text, true);
}

void restart_back(const struct thread_link *l, enum restart_part part, const struct gck_error *why)
{
	struct agent *a = l->agent;
	const struct task *t = l->task;
	struct gck_error err = why ? *why : (struct gck_error){ 0 };
	struct restart *r = a->restart;

	if (why)
		gck_fail_in(&err, "its %s was not brought back", part_names[part]);
	if (why && (!r || r->stage == STAGE_DONE)) {
		end_half_restored(a, t, &err);
		return;
	}
	for (size_t i = 0; r && r->stage == STAGE_RUNNING && i < r->n; i++) {
		if (r->ranks[i].task != t)
			continue;
		if (why)
			restart_fail(r, t, &err);
		else
			rank_restart_back(&r->ranks[i], part, l->number);
	}
	if (r)
		restart_advance(r);
}

/* The rank to blame. MPI comes back in all ranks together, so one rank delays all; a rank that
 * was not let go delays the others. */
static const struct rank_restart *last_back(const struct restart *r)
{
	const struct rank_restart *last = NULL;

	for (size_t i = 0; i < r->n; i++) {
		const struct rank_restart *one = &r->ranks[i];

		if (one->reached != STAGE_DONE && (!last || (last->ran && !one->ran)))
			last = one;
	}
	return last;
}

void stages_on_rebuild(struct ev_loop *loop, ev_timer *w, int events)
{
	struct restart *r = w->data;
	const struct rank_restart *last = last_back(r);
	struct gck_error err = { 0 };

	(void)loop;
	(void)events;
	if (!last)
		return;
	if (last->ran)
		gck_fail(&err, ETIMEDOUT,
			 "its %s did not come back within %.0f s: if that takes so "
			 "long here, give a longer timeout=", part_names[rank_restart_lacks(last)],
			 w->repeat);
	else
		gck_fail(&err, ETIMEDOUT, "its restorer did not let it go within %.0f s",
			 w->repeat);
	restart_fail(r, last->task, &err);
}
