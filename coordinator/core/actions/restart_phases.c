/* SPDX-License-Identifier: Apache-2.0
 * The phases of a restart: build, truncate files, run; the fallback to an older commit, and the end
 * when no commit is left. */
#include "coordinator/core/actions/actions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "common/wire/restart_code.h"
#include "coordinator/core/actions/failures.h"
#include "coordinator/core/actions/give_back.h"
#include "coordinator/core/actions/restart.h"
#include "coordinator/core/operations/requeue.h"
#include "coordinator/core/operations/step_timers.h"

#define RUN_MS 30000 /* after which the order is resent to nodes that have not confirmed */
#define AGAIN_MS 30000 /* after which Slurm is asked again */

static json_t *order(const char *op, const struct gck_step *step)
{
	return json_pack("{s:s, s:I}", "op", op, "seq", (json_int_t)step->live->plan.seq);
}

static void try_commit(struct gck_core *core, struct gck_step *step)
{
	if (step->live->plan.job == step->job->id)
		gck_core_note(core, gck_record_seq(step, "restore", step->live->plan.seq), true);
	gck_live_phase_timer(core, step, step->live->options.timeout_ms);
}

/* ---- phase 1 ------------------------------------------------------------------------------- */

static void welcome(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	const struct gck_restart_plan *plan = &step->live->plan;
	json_t *body = gck_welcome(core, step, "restore");

	json_object_set_new(body, "seq", json_integer(plan->seq));
	json_object_set_new(body, "hash", *plan->hash ? json_string(plan->hash) : json_null());
	json_object_set_new(body, "restart_from", json_pack("{s:I, s:I}", "job",
			    (json_int_t)plan->job, "step", (json_int_t)plan->step));
	gck_live_send(core, node, body);
	node->welcomed = true;
}

static void ask_build(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	welcome(core, step, node);
	gck_live_send(core, node, order("build", step));
}

/* Send to nodes that have not answered. An agent that reconnected takes no message before its
 * welcome. */
static void ask_again(struct gck_core *core, struct gck_step *step, const char *op)
{
	for (uint32_t i = 0; i < step->live->nnodes; i++) {
		struct gck_node *node = &step->live->nodes[i];

		if (node->answered || !node->agent)
			continue;
		if (!node->welcomed)
			welcome(core, step, node);
		gck_live_send(core, node, order(op, step));
	}
}

void gck_act_build(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	gck_info("step %u.%u is restored from commit %u of step %u.%u", step->job->id, step->id,
		 live->plan.seq, live->plan.job, live->plan.step);
	try_commit(core, step);
	gck_slow_arm(core, step);
	for (uint32_t i = 0; i < live->nnodes; i++) {
		struct gck_node *node = &live->nodes[i];

		node->answered = gck_node_runs(node);
		node->done = node->all = 0;
		if (!node->answered)
			ask_build(core, step, node);
	}
}

/* Send to the agent that came back. */
void gck_act_rebuild(struct gck_core *core, struct gck_step *step)
{
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		if (step->live->nodes[i].back && !step->live->nodes[i].answered)
			ask_build(core, step, &step->live->nodes[i]);
}

void gck_act_fallback(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	bool back = gck_restart_blame(live->error.code) == GCK_BLAME_COMMIT &&
		    !step->decided;
	const struct gck_commit *c = back ? gck_restart_commit_before(step, live->plan.seq)
					  : NULL;
	json_t *body;

	gck_error_log("step %u.%u cannot be restored from commit %u: %s", step->job->id, step->id,
		      live->plan.seq, live->error.text);
	if (!c) {
		live->try_again = gck_failure_note(core, step);
		gck_raise(core, step, GCK_NONE_LEFT);
		return;
	}
	gck_warn("step %u.%u: all ranks fall back to commit %u", step->job->id, step->id, c->seq);
	live->plan.seq = c->seq;
	memcpy(live->plan.hash, c->hash, sizeof live->plan.hash);
	try_commit(core, step);
	body = order("fallback", step);
	json_object_set_new(body, "hash", json_string(c->hash));
	json_object_set_new(body, "why", json_string(live->error.text));
	gck_live_ask_all(core, step, body);
}

/* ---- phases 2 and 3 ------------------------------------------------------------------------ */

static void count_running(struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		live->nodes[i].answered = gck_node_runs(&live->nodes[i]);
}

/* The point of no return: that the ranks run is journaled before the first file is truncated. If
 * the journal cannot be written, they wait. */
void gck_act_refile(struct gck_core *core, struct gck_step *step)
{
	json_t *r = step->decided ? NULL : gck_record_seq(step, "run", step->live->plan.seq);
	struct gck_error err = {0};

	if (r && gck_core_record(core, r, true, &err)) {
		gck_error_log("step %u.%u waits, built: %s", step->job->id, step->id, err.text);
		gck_live_phase_timer(core, step, RUN_MS);
		return;
	}
	gck_live_phase_timer(core, step, RUN_MS);
	ask_again(core, step, "files");
}

/* Ranks on several nodes may share a file: all files are truncated before the first rank runs. */
void gck_act_files(struct gck_core *core, struct gck_step *step)
{
	count_running(step->live);
	gck_act_refile(core, step);
}

/* A node whose agent died after its ranks ran reports that itself. */
void gck_act_rerun(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	for (uint32_t i = 0; i < live->nnodes; i++)
		live->nodes[i].answered |= gck_node_runs(&live->nodes[i]);
	gck_live_phase_timer(core, step, RUN_MS);
	if (gck_live_all_answered(live, false))
		gck_raise(core, step, GCK_ALL);
	else
		ask_again(core, step, "run");
}

/* Again when all run: bringing device data and MPI back takes its time. */
static void note_let_go(struct gck_core *core, const struct gck_step *step)
{
	json_t *r = gck_record_seq(step, "run", step->live->plan.seq);

	json_object_set_new(r, "ms", json_integer(core->world->now_ms()));
	gck_core_note(core, r, false);
}

void gck_act_run(struct gck_core *core, struct gck_step *step)
{
	count_running(step->live);
	gck_info("step %u.%u: its ranks are built and let go", step->job->id, step->id);
	note_let_go(core, step);
	gck_act_rerun(core, step);
}

#define DAY_S 86400

/* "step 3.0 is restored from checkpoint 2 of 08:38:00, on n2" */
static void say_restored(struct gck_core *core, const struct gck_step *step)
{
	const struct gck_commit *c = gck_step_commit(step, step->live->plan.seq);
	const struct gck_live *live = step->live;
	char when[32] = "", more[32] = "";
	time_t made = c ? (time_t)c->time : 0, now = (time_t)(core->world->now_ms() / 1000);
	struct tm tm;

	if (c && localtime_r(&made, &tm))
		strftime(when, sizeof when, now - made < DAY_S ? " of %T" : " of %F %T", &tm);
	if (live->nnodes > 1)
		snprintf(more, sizeof more, " and %u more", live->nnodes - 1);
	gck_live_say(core, step, "step %u.%u is restored from checkpoint %u%s, on %s%s",
		     step->job->id, step->id, live->plan.seq, when, live->nodes[0].name, more);
}

void gck_act_started(struct gck_core *core, struct gck_step *step)
{
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		step->live->nodes[i].state = GCK_AGENT_RUNNING;
	note_let_go(core, step);
	gck_info("step %u.%u runs again, from commit %u", step->job->id, step->id,
		 step->live->plan.seq);
	say_restored(core, step);
	gck_act_idle(core, step);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Tell the agents only after Slurm has requeued the job: otherwise the job's script would go on. */
void gck_act_doomed(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	json_t *body;

	if (!live->doom_told)
		return;
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].agent && !live->nodes[i].welcomed)
			welcome(core, step, &live->nodes[i]);
	body = json_pack("{s:s, s:i, s:s}", "op", "fallback", "seq", 0, "why", live->last_error);
	gck_live_send_all(core, step, body);
}

static void tell_doom(struct gck_core *core, struct gck_step *step)
{
	step->live->doom_told = true;
	gck_act_doomed(core, step);
}

/* Before Slurm is asked: its answer and the end of the step come at the same time. */
static void say_held(struct gck_core *core, const struct gck_step *step)
{
	uint32_t job = step->job->id;

	if (step->live->try_again)
		return;
	gck_live_say(core, step, "job %u is to be requeued and held, since it cannot be restored: "
		     "%s; `scontrol release %u` lets it try again", job, step->live->last_error,
		     job);
}

/* If slurmctld is away the ranks wait; only its refusal is an answer. */
static void on_given_back(struct gck_core *core, struct gck_step *step, enum gck_given given)
{
	if (given == GCK_GIVEN)
		gck_requeue_note(core, step->job->id, true);
	if (!step->live || step->live->phase != GCK_DOOMED)
		return;
	if (given == GCK_NOT_YET) {
		gck_live_phase_timer(core, step, AGAIN_MS);
		return;
	}
	tell_doom(core, step);
}

void gck_act_give_back(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (!live->doom_told)
		gck_give_back(core, step, !live->try_again, live->last_error, on_given_back);
}

/* Never start cold over good work. */
void gck_act_doom(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	gck_live_phase_timer(core, step, 0);
	memcpy(live->last_error, live->error.text, sizeof live->last_error);
	live->last_error_time = core->world->now_ms() / 1000;
	gck_error_log("step %u.%u cannot be restored: %s", step->job->id, step->id,
		      live->last_error);
	if (step->job->batch) {
		say_held(core, step);
		gck_act_give_back(core, step);
		return;
	}
	gck_restart_say_not_held(core, step);
	tell_doom(core, step);
}

/* Device memory is read after the ranks are released. If that fails, the processes are lost and
 * files are truncated to this commit; the job's next start uses the commit before, to which files
 * can be truncated from any later state. */
static bool go_behind(struct gck_core *core, struct gck_step *step)
{
	uint32_t seq = step->live->plan.seq;
	const struct gck_commit *c = gck_restart_commit_before(step, seq);

	if (step->live->error.code != EBADMSG || !c)
		return false;
	gck_warn("step %u.%u: commit %u is damaged; the next start is from commit %u",
		 step->job->id, step->id, seq, c->seq);
	gck_core_note(core, gck_record_seq(step, "damaged", seq), true);
	return true;
}

/* Files are as in the commit, and some ranks may have run from it. What stopped a rank may not
 * recur at the next start. */
void gck_act_failed_start(struct gck_core *core, struct gck_step *step)
{
	step->live->try_again = go_behind(core, step) || gck_failure_note(core, step);
	gck_act_doom(core, step);
}
