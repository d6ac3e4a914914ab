/* SPDX-License-Identifier: Apache-2.0
 * The decision how a step starts. restart_phases.c carries it out. */
#include "coordinator/core/actions/actions.h"
#include "coordinator/core/actions/restart.h"

#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/model/remnant.h"
#include "storage/store/commit.h"

json_t *gck_welcome(const struct gck_core *core, const struct gck_step *step, const char *action)
{
	json_t *body = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "op", "welcome", "action",
				 action, "epoch", (json_int_t)core->state.epoch, "job",
				 (json_int_t)step->job->id, "step", (json_int_t)step->id,
				 "restarts", (json_int_t)step->restarts);

	if (core->slurmd_timeout_s >= 0)
		json_object_set_new(body, "slurmd_timeout", json_integer(core->slurmd_timeout_s));
	return body;
}

/* ---- the former incarnation's word --------------------------------------------------------- */

static json_t *statuses(const struct gck_step *step)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < step->ntasks; i++)
		json_array_append_new(out, json_integer(step->exits[i]));
	return out;
}

static json_t *refusal(struct gck_core *core, const struct gck_step *step, const json_t *now)
{
	char *before = json_dumps(step->fingerprint, JSON_COMPACT | JSON_SORT_KEYS);
	char *after = json_dumps(now, JSON_COMPACT | JSON_SORT_KEYS);
	json_t *body = gck_welcome(core, step, "refuse");

	json_object_set_new(
		body, "why",
		json_sprintf("this is not the step that was checkpointed as "
			     "%u.%u. Then: %s. Now: %s. "
			     "Use restart=never to start it from the beginning",
			     step->job->id, step->id, before ? before : "?", after ? after : "?"));
	gck_error_log("%s", json_string_value(json_object_get(body, "why")));
	free(before);
	free(after);
	return body;
}

json_t *gck_restart_verdict(struct gck_core *core, const struct gck_step *former,
			    const json_t *fingerprint, const struct gck_options *options)
{
	json_t *body;

	if (!json_is_object(former->fingerprint) || options->restart == GCK_RESTART_NEVER)
		return NULL;
	if (!json_equal(former->fingerprint, fingerprint))
		return former->commits || former->finished ? refusal(core, former, fingerprint)
							   : NULL;
	if (!former->finished || !options->skip_done)
		return NULL;
	gck_info("step %u.%u had finished; it is not run again", former->job->id, former->id);
	body = gck_welcome(core, former, "finished");
	json_object_set_new(body, "statuses", statuses(former));
	json_object_set_new(body, "why", json_sprintf("step %u had finished, it is not run again "
						      "(skip-done=no runs it)", former->id));
	return body;
}

/* ---- commits ------------------------------------------------------------------------------- */

/* restart=SEQ: the user wants this commit and no other. restart=JOB:SEQ names only where the job
 * began. */
static bool is_asked_for(const struct gck_options *o)
{
	return o->restart == GCK_RESTART_FROM && o->restart_job == 0;
}

/* An imported commit is used only if restart= names it. */
const struct gck_commit *gck_restart_commit_before(const struct gck_step *step, uint32_t seq)
{
	const struct gck_restart_plan *plan = &step->live->plan;
	const struct gck_commit *c = step->commits;

	if ((plan->seq && plan->job != step->job->id) || is_asked_for(&step->live->options))
		return NULL;
	while (c && (c->abandoned || c->imported || c->seq >= seq))
		c = c->older;
	return c;
}

/* ---- the decision -------------------------------------------------------------------------- */

enum verdict { COLD, RESTORE, REFUSE, HOLD, WAIT };

static void plan_commit(struct gck_step *step, const struct gck_commit *c)
{
	struct gck_restart_plan *plan = &step->live->plan;

	*plan = (struct gck_restart_plan){.job = step->job->id, .step = step->id, .seq = c->seq};
	memcpy(plan->hash, c->hash, sizeof plan->hash);
}

/* The step has no commit seq: it has others, or none. */
static void name_commits(const struct gck_step *step, uint32_t seq, struct gck_error *err)
{
	uint32_t have[GCK_COMMITS_NAMED];
	size_t n = 0;

	for (const struct gck_commit *c = step->commits; c; c = c->older, n++)
		if (n < GCK_COMMITS_NAMED)
			have[n] = c->seq;
	gck_commit_missing(step->live->options.store, step->job->id, step->id, seq, have, n, err);
}

static enum verdict plan_own(struct gck_step *step, uint32_t seq)
{
	const struct gck_commit *c = gck_step_commit(step, seq);
	struct gck_error err;

	if (c) {
		plan_commit(step, c);
		return RESTORE;
	}
	name_commits(step, seq, &err);
	gck_live_fail(step, err.code, "%s", err.text);
	return REFUSE;
}

/* For a commit of another job the store decides whether it exists and belongs to the user. What the
 * journal knows must agree. */
static enum verdict plan_foreign(struct gck_core *core, struct gck_step *step)
{
	const struct gck_options *o = &step->live->options;
	const struct gck_step *other = gck_state_step(&core->state, o->restart_job, step->id);
	const struct gck_commit *c = other ? gck_step_commit(other, o->restart_seq) : NULL;
	struct gck_restart_plan *plan = &step->live->plan;

	if (other && other->job->uid != step->job->uid) {
		gck_live_fail(step, ENOENT, "there is no job %u of yours to restart from",
			      o->restart_job);
		return REFUSE;
	}
	if (other && json_is_object(other->fingerprint) &&
	    !json_equal(other->fingerprint, step->fingerprint)) {
		gck_live_fail(step, EINVAL, "step %u of job %u was another program, or had other "
			      "arguments, directory or tasks; see `gpuckpt show`", step->id,
			      o->restart_job);
		return REFUSE;
	}
	*plan = (struct gck_restart_plan){.job = o->restart_job, .step = step->id,
					  .seq = o->restart_seq};
	if (c)
		memcpy(plan->hash, c->hash, sizeof plan->hash);
	return RESTORE;
}

static enum verdict hold_unknown(struct gck_step *step)
{
	const char *why = step->live->nodes[0].store_error;

	gck_live_fail(step, EIO,
		      "nobody knows which commits step %u.%u has: the store cannot be read (%s). "
		      "Make it readable and release the job",
		      step->job->id, step->id, why ? why : "no reason given");
	return HOLD;
}

/* Only the certainty that there is no commit permits a cold start of work that has begun before. If
 * the store cannot be read, the journal is sufficient, unless a commit object may have been
 * written. */
static enum verdict without_commit(struct gck_step *step)
{
	if (step->live->foreign) {
		gck_live_fail(step, EEXIST,
			      "the commits of step %u.%u in its store were made by another "
			      "program, or with other arguments, directory or tasks. Use "
			      "restart=never to start it from the beginning",
			      step->job->id, step->id);
		return REFUSE;
	}
	return step->intent.committing && !step->live->nodes[0].commits ? hold_unknown(step) :
									  COLD;
}

static enum verdict too_often(struct gck_step *step)
{
	const struct gck_failures *f = &step->failures;

	gck_live_fail(step, ECANCELED, "%u restarts have failed; the last one: %.400s", f->all,
		      f->why);
	return HOLD;
}

static const struct gck_node *find(const struct gck_live *live, enum gck_agent_state state)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].known && live->nodes[i].state == state)
			return &live->nodes[i];
	return NULL;
}

/* The journal has lost the decision from which commit ranks run here, and others wait for it. */
static bool is_half_started(struct gck_step *step)
{
	const struct gck_node *runs = find(step->live, GCK_AGENT_RUNNING);
	const struct gck_node *waits = find(step->live, GCK_AGENT_NEW);

	if (!runs || !waits)
		return false;
	gck_live_fail(step, EINTR, "the journal was lost or put back while step %u.%u was started: "
		      "its ranks run on node %s, but not on node %s", step->job->id, step->id,
		      runs->name, waits->name);
	step->live->try_again = true;
	return true;
}

static enum verdict choose(struct gck_core *core, struct gck_step *step)
{
	const struct gck_options *o = &step->live->options;
	const struct gck_commit *c;

	if (o->restart == GCK_RESTART_NEVER)
		return COLD;
	if (o->restart == GCK_RESTART_AUTO && step->restarts == 0)
		return COLD;
	if (!step->live->nodes[0].known)
		return WAIT;
	if (step->failures.spent)
		return too_often(step);
	c = gck_step_newest(step, step->restore_seq);
	if (is_asked_for(o))
		return plan_own(step, o->restart_seq);
	if (step->restarts > 0 && !step->listed)
		return hold_unknown(step);
	if (o->restart == GCK_RESTART_FROM && !(c && c->restarts < step->restarts))
		return plan_foreign(core, step);
	if (!c)
		return without_commit(step);
	if (is_half_started(step))
		return HOLD;
	plan_commit(step, c);
	return RESTORE;
}

static void welcome_cold(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	json_t *body;

	if (!node->known || node->welcomed || gck_node_runs(node))
		return;
	body = gck_welcome(core, step, "cold");
	if (step->restarts > 0 && step->live->options.restart != GCK_RESTART_NEVER)
		json_object_set_new(body, "why", json_string("there is no commit to restart from"));
	node->welcomed = true;
	node->state = GCK_AGENT_RUNNING;
	gck_live_send(core, node, body);
}

static void go_cold(struct gck_core *core, struct gck_step *step)
{
	if (!step->decided) {
		gck_info("step %u.%u starts from the beginning%s", step->job->id, step->id,
			 step->restarts ? ": there is no commit" : "");
		gck_core_note(core, gck_record_seq(step, "run", 0), step->restarts > 0);
	}
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		welcome_cold(core, step, &step->live->nodes[i]);
	if (step->live->phase == GCK_GATHERING)
		gck_raise(core, step, GCK_RUNS);
}

void gck_restart_refuse(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	json_t *body = gck_welcome(core, step, "refuse");

	json_object_set_new(body, "why", json_string(step->live->last_error));
	gck_live_send(core, node, body);
}

/* why is stolen. */
static void let_wait(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     json_t *why)
{
	json_t *body;

	if (!gck_node_runs(node)) {
		body = gck_welcome(core, step, "wait");
		json_object_set(body, "why", why);
		gck_live_send(core, node, body);
	}
	json_decref(why);
}

void gck_restart_say_not_held(struct gck_core *core, const struct gck_step *step)
{
	struct gck_job *job = step->job;

	if (!job->no_requeue)
		return;
	job->said_so = true;
	gck_live_say(core, step, "job %u was submitted with --no-requeue, so it is not held: its "
		     "script goes on after srun has failed", job->id);
}

static void go_nowhere(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	memcpy(live->last_error, live->error.text, sizeof live->last_error);
	live->last_error_time = core->world->now_ms() / 1000;
	live->refused = true;
	gck_error_log("step %u.%u is not started: %s", step->job->id, step->id, live->last_error);
	let_wait(core, step, &live->nodes[0], json_string("its start is refused"));
	gck_restart_say_not_held(core, step);
	for (uint32_t i = 0; i < live->nnodes; i++)
		gck_restart_refuse(core, step, &live->nodes[i]);
	gck_raise(core, step, GCK_REFUSED);
}

static bool all_run(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (!live->nodes[i].over && !gck_node_runs(&live->nodes[i]))
			return false;
	return true;
}

/* If the coordinator was away during a start, some nodes may run and others wait. */
static enum verdict decided(struct gck_step *step)
{
	const struct gck_options *o = &step->live->options;
	const struct gck_commit *c = gck_step_commit(step, step->run_seq);

	if (!step->run_seq)
		return COLD;
	if (c)
		plan_commit(step, c);
	else
		step->live->plan = (struct gck_restart_plan){
			.job = o->restart_job, .step = step->id, .seq = step->run_seq};
	return RESTORE;
}

/* Ranks of a former start may still run. */
static void fence(struct gck_core *core, struct gck_step *step, struct gck_node *node, int64_t left)
{
	json_t *why = gck_remnants_text(step->job, left);

	if (!step->live->fenced)
		gck_warn("step %u.%u: %s", step->job->id, step->id, json_string_value(why));
	step->live->fenced = true;
	gck_live_phase_timer(core, step, (unsigned)left);
	let_wait(core, step, node, why);
}

static int64_t fenced_ms(const struct gck_core *core, const struct gck_step *step)
{
	return step->decided || step->live->phase != GCK_GATHERING ? 0 :
	       gck_remnants_left_ms(core, step->job);
}

static void end_fence(struct gck_core *core, struct gck_step *step)
{
	step->live->fenced = false;
	gck_live_phase_timer(core, step, gck_ms(step->live->options.restart_wait_s));
}

void gck_restart_unfence(struct gck_core *core, struct gck_step *step)
{
	struct gck_node *node = step->live->nodes;

	if (!step->live->fenced || step->live->phase != GCK_GATHERING)
		return;
	while (!node->known)
		node++;
	gck_restart_decide(core, step, node);
}

/* Some nodes have not registered in time, or the remnants of former starts are isolated now. */
void gck_act_gather_late(struct gck_core *core, struct gck_step *step)
{
	if (!step->live->fenced) {
		gck_raise(core, step, GCK_NONE_LEFT);
		return;
	}
	gck_info("step %u.%u: the former start's ranks that have not confirmed their end are "
		 "stopped by now", step->job->id, step->id);
	memset(&step->live->error, 0, sizeof step->live->error);
	gck_restart_unfence(core, step);
}

void gck_restart_decide(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;
	int64_t left = fenced_ms(core, step);
	enum verdict v;

	if (left > 0) {
		fence(core, step, node, left);
		return;
	}
	if (live->fenced)
		end_fence(core, step);
	v = step->decided ? decided(step) : choose(core, step);
	if (v == REFUSE && step->job->batch)
		v = HOLD; /* as gck_failure_refused */
	if (v == COLD) {
		go_cold(core, step);
	} else if (v == REFUSE) {
		go_nowhere(core, step);
	} else if (v == HOLD) {
		let_wait(core, step, &live->nodes[0], json_string("it cannot be restored"));
		gck_raise(core, step, GCK_NONE_LEFT);
	} else if (v == WAIT || !gck_live_all_known(live)) {
		let_wait(core, step, node,
			 json_string("not every node of the step has registered"));
	} else {
		gck_raise(core, step, step->decided && all_run(live) ? GCK_RUNS : GCK_RESTORE);
	}
}
