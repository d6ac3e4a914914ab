/* SPDX-License-Identifier: Apache-2.0
 * Registrations: checked, journaled, and answered. */
#include "coordinator/core/agents/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/encoding.h"
#include "coordinator/core/actions/checkpoint.h"
#include "coordinator/core/actions/failures.h"
#include "coordinator/core/actions/restart.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/agents/registration.h"
#include "coordinator/core/model/remnant.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/step_timers.h"
#include "coordinator/core/retention/take_over.h"

/* The time to look for a commit object. Node 0's agent may need its back-off and the time to list
 * the store. */
#define RECOVER_MS 30000
#define RECOVER_HELD_MS 5000

/* ---- the step ------------------------------------------------------------------------------ */

void gck_join_end(struct gck_core *core, struct gck_step *step)
{
	if (!step->live)
		return;
	gck_raise(core, step, GCK_ENDED);
	for (uint32_t i = 0; i < step->live->nnodes; i++) {
		gck_operation_leave(core, &step->live->nodes[i]);
		if (step->live->nodes[i].agent)
			core->world->drop(step->live->nodes[i].agent);
	}
	for (enum gck_timer t = 0; t < GCK_TIMERS; t++)
		core->world->timer(core, step, t, 0);
	gck_live_free(step);
}

static int journal_step(struct gck_core *core, const struct gck_registration *r, uint32_t restarts,
			struct gck_error *err)
{
	return gck_core_record(core, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:O}", "t",
					       "step", "job", r->job, "step", r->step, "restarts",
					       (json_int_t)restarts, "nodes", r->nodes, "ntasks",
					       r->ntasks, "store", r->store, "options", r->options,
					       "fingerprint", r->fingerprint), true, err);
}

/* Close what the former incarnation left undecided. */
static void close_former(struct gck_core *core, struct gck_step *step)
{
	gck_join_end(core, step);
	if (step->intent.seq && !step->intent.committing)
		gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
}

static bool is_same(const struct gck_step *step, const struct gck_registration *r,
		    uint32_t restarts)
{
	return step && json_is_object(step->fingerprint) && step->restarts == restarts &&
	       step->nodes == r->nodes && step->ntasks == r->ntasks;
}

/* The verdict is stolen. */
static int end_at_start(struct gck_core *core, struct gck_step *step, struct gck_agent *agent,
			json_t *verdict, struct gck_error *err)
{
	bool again = gck_failure_refused(core, step, agent, verdict);

	if (!again)
		core->world->send(agent, verdict);
	json_decref(verdict);
	return again ? gck_fail(err, EAGAIN, "job %u is to be requeued and held", step->job->id)
		     : 1;
}

/* A new incarnation, or an unknown step. 1: the agent was told that the step does not start. */
static int begin_incarnation(struct gck_core *core, struct gck_agent *agent,
			     const struct gck_registration *r, uint32_t restarts,
			     struct gck_error *err)
{
	struct gck_step *step = gck_state_step(&core->state, (uint32_t)r->job, (uint32_t)r->step);
	bool finished = step && step->finished;
	struct gck_options options;
	json_t *verdict = NULL;

	gck_options_init(&options);
	if (gck_options_parse(&options, r->options, err) ||
	    gck_conf_allows(core->conf, r->store, err))
		return -1;
	if (step && r->state == GCK_AGENT_NEW)
		verdict = gck_restart_verdict(core, step, r->fingerprint, &options);
	if (verdict)
		return end_at_start(core, step, agent, verdict, err);
	if (step)
		close_former(core, step);
	if (journal_step(core, r, restarts, err))
		return -1;
	/* skip-done=no: a finished step is run again from the beginning, not from its last
	 * commit. */
	return finished ? gck_core_record(core, gck_record_seq(step, "run", 0), true, err) : 0;
}

static void begin_live(struct gck_core *core, struct gck_step *step, enum gck_agent_state state)
{
	struct gck_live *live = step->live;

	live->phase_since_ms = core->world->now_ms();
	if (state == GCK_AGENT_NEW || state == GCK_AGENT_RESTORING) {
		live->phase = GCK_GATHERING;
		gck_live_phase_timer(core, step, gck_ms(live->options.restart_wait_s));
	} else if (step->intent.seq && step->intent.committing) {
		live->phase = GCK_RECOVERING;
		live->checkpoint.seq = step->intent.seq;
		live->checkpoint.keep_held = step->intent.held;
		gck_live_fail(step, EINTR,
			      "the coordinator was away while checkpoint %u was committed, "
			      "and its commit was not found",
			      step->intent.seq);
		gck_live_phase_timer(core, step, step->intent.held ? RECOVER_HELD_MS : RECOVER_MS);
		gck_hold_arm(core, step);
	} else {
		live->phase = GCK_IDLE;
		if (step->intent.seq)
			gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
		gck_interval_arm(core, step);
	}
}

/* ---- the node ------------------------------------------------------------------------------ */

static void fill_node(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		      struct gck_agent *agent, const struct gck_registration *r)
{
	const char *store_error = json_string_value(json_object_get(r->body, "store_error"));
	struct gck_agent *former = node->agent;
	json_t *commits = json_object_get(r->body, "commits");

	if (former && former != agent) {
		gck_node_left(node, core->world->now_ms());
		gck_live_fail(step, ECONNRESET, "the agent of node %s connected again", node->name);
		gck_raise(core, step, GCK_LOST);
		core->world->drop(former);
	}
	gck_operation_leave(core, node);
	node->request = (struct gck_rank_request){0};
	node->agent = agent;
	node->known = true;
	node->over = false;
	node->back = true;
	node->script = json_is_true(json_object_get(r->body, "script"));
	node->state = r->state;
	node->seq = (uint32_t)r->seq;
	if (!gck_node_runs(node))
		node->welcomed = node->answered = false;
	snprintf(node->name, sizeof node->name, "%s", r->node);
	gck_utf8_sanitize(node->name);
	gck_node_set_ranks(node, json_object_get(r->body, "local_ranks"), step->ntasks);
	json_decref(node->commits);
	node->commits = json_is_array(commits) ? json_incref(commits) : NULL;
	free(node->store_error);
	node->store_error = store_error ? strdup(store_error) : NULL;
}

/* From now on the journal has what the store has. */
static void note_listed(struct gck_core *core, const struct gck_step *step)
{
	json_t *r = step->listed ? NULL : gck_record_seq(step, "seq", step->last_seq);

	if (!r)
		return;
	json_object_set_new(r, "listed", json_true());
	gck_core_note(core, r, false);
}

static void take_commits(struct gck_core *core, struct gck_step *step, const struct gck_node *node)
{
	bool first = node == &step->live->nodes[0];
	bool runs = gck_node_runs(node);
	uint32_t before = step->restarts ? step->restarts - 1 : 0;

	if (!first || !node->commits)
		return;
	if (runs || step->restarts > 0)
		gck_take_over(core, step, node->commits, runs ? step->restarts : before,
			      &step->live->foreign);
	gck_take_over_numbers(core, step, node->commits);
	note_listed(core, step);
	/* The open commit of the former incarnation was not written. A checkpoint under way is
	 * ended by its phase. */
	if (!runs && step->intent.seq && !step->live->checkpoint.seq)
		gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
}

/* Node 0 tells whether the commit object was written. */
static void recover(struct gck_core *core, struct gck_step *step, const struct gck_node *node)
{
	json_t *one;
	size_t i;

	if (node != &step->live->nodes[0] || !node->commits)
		return;
	json_array_foreach(node->commits, i, one) {
		const char *hash = json_string_value(json_object_get(one, "hash"));

		if (json_integer_value(json_object_get(one, "seq")) != step->intent.seq || !hash)
			continue;
		snprintf(step->live->checkpoint.hash, GCK_HASH_TEXT, "%s", hash);
		gck_checkpoint_found(core, step);
		gck_raise(core, step, GCK_FOUND);
		return;
	}
	gck_raise(core, step, GCK_MISSING);
}

/* ---- the welcome --------------------------------------------------------------------------- */

static void send_seq(struct gck_core *core, struct gck_node *node, const char *op)
{
	gck_live_send(core, node,
		      json_pack("{s:s, s:I, s:s}", "op", op, "seq", (json_int_t)node->seq, "why",
				"the coordinator was restarted"));
}

static void send_committed(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	const struct gck_commit *c = gck_step_commit(step, node->seq);
	json_t *body = json_pack("{s:s, s:I, s:s, s:[]}", "op", "committed", "seq",
				 (json_int_t)c->seq, "hash", c->hash, "keep");

	for (c = step->commits; c; c = c->older)
		json_array_append_new(json_object_get(body, "keep"), json_integer(c->seq));
	gck_live_send(core, node, body);
}

/* Ranks are held for a commit that the journal has; a requeue or their end was to follow. If the
 * others were released already, this node's ranks go on as well. */
static void take_up_held(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	if (step->live->phase != GCK_IDLE || c->operation) {
		if (c->seq != node->seq)
			send_seq(core, node, "resume");
		return;
	}
	c->seq = node->seq;
	c->keep_held = true;
	gck_raise(core, step, GCK_FOUND);
}

/* A node that runs may have a checkpoint under way: a later one than the journal has, if that is an
 * older copy. */
static void settle(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;
	bool committed = node->seq && gck_step_commit(step, node->seq);

	if (committed)
		send_committed(core, step, node);
	else if (node->seq && live->checkpoint.seq != node->seq)
		send_seq(core, node, "abort");
	if (committed && node->state == GCK_AGENT_HELD)
		take_up_held(core, step, node);
	if (live->phase == GCK_RECOVERING) {
		recover(core, step, node);
		return;
	}
	gck_raise(core, step, GCK_BACK);
}

static bool wants_start(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].known && !live->nodes[i].welcomed &&
		    !gck_node_runs(&live->nodes[i]))
			return true;
	return false;
}

/* A step that started cold may be in a checkpoint when its last agents come. */
static bool is_late(const struct gck_step *step)
{
	const struct gck_live *live = step->live;

	return step->decided && !step->run_seq && live->phase != GCK_GATHERING &&
	       live->phase != GCK_IDLE && wants_start(live);
}

static void welcome_new(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	if (live->refused) {
		gck_restart_refuse(core, step, node);
		return;
	}
	if (is_late(step))
		gck_restart_decide(core, step, node);
	gck_raise(core, step, GCK_BACK);
}

static void welcome(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	if (gck_node_runs(node)) {
		node->welcomed = true;
		gck_live_send(core, node, gck_welcome(core, step, "run"));
		settle(core, step, node);
	} else {
		welcome_new(core, step, node);
	}
	if (step->live && !live->refused &&
	    (live->phase == GCK_GATHERING || (live->phase == GCK_IDLE && wants_start(live))))
		gck_restart_decide(core, step, node);
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Once a job. */
static void say_not_requeued(struct gck_core *core, const struct gck_step *step)
{
	struct gck_job *job = step->job;

	if (!job->no_requeue || job->said_so)
		return;
	job->said_so = true;
	gck_live_say(core, step, "job %u was submitted with --no-requeue: after the loss of a node "
		     "nothing starts it again from a checkpoint", job->id);
}

static struct gck_step *enter(struct gck_core *core, struct gck_agent *agent,
			      const struct gck_registration *r, struct gck_error *err)
{
	struct gck_step *step = gck_state_step(&core->state, (uint32_t)r->job, (uint32_t)r->step);
	struct gck_node *node;

	if (step->live && step->live->phase == GCK_OVER)
		gck_join_end(core, step);
	if (!step->live) {
		if (gck_live_begin(step, err))
			return NULL;
		begin_live(core, step, r->state);
	}
	node = &step->live->nodes[r->node_id];
	fill_node(core, step, node, agent, r);
	gck_info("step %u.%u: the agent of node %s is here (%s)", step->job->id, step->id,
		 node->name, r->state_name);
	take_commits(core, step, node);
	gck_answer_exits(core, step, r->body);
	welcome(core, step, node);
	node->back = false;
	if (node == &step->live->nodes[0])
		say_not_requeued(core, step);
	return step;
}

/* ---- former starts of the job ---------------------------------------------------------------- */

/* All its agents are dropped: they register again, and are told to end. */
static void leave_former(struct gck_core *core, const struct gck_job *job)
{
	for (struct gck_step *step = job->steps; step; step = step->next)
		if (step->restarts < job->restarts && step->live)
			close_former(core, step);
}

/* An agent of a former start whose ranks have all ended. */
static bool is_confirmation(const struct gck_registration *r)
{
	return r->state == GCK_AGENT_RUNNING &&
	       !json_array_size(json_object_get(r->body, "local_ranks")) &&
	       json_array_size(json_object_get(r->body, "exited"));
}

static void take_confirmation(struct gck_core *core, const struct gck_job *job,
			      const struct gck_registration *r)
{
	if (!is_confirmation(r) || !gck_remnants_confirm(core, job, r->step, r->node_id))
		return;
	gck_info("job %u: its former start has ended on node %s", job->id, r->node);
	for (struct gck_step *step = job->steps; step; step = step->next)
		if (step->live)
			gck_restart_unfence(core, step);
}

static int counted_again(struct gck_core *core, struct gck_agent *agent, const struct gck_job *job,
			 const json_t *info, struct gck_error *err)
{
	uint32_t start = (uint32_t)json_integer_value(json_object_get(info, "restarts"));
	bool again = gck_failure_counted_again(core, job->steps, agent, start);

	return gck_fail(err, again ? EAGAIN : EACCES, "start %u of job %u is counted a second time "
			"by Slurm, which %s", start, job->id,
			again ? "is to requeue it" : "does not requeue it");
}

/* Is the agent of the job's newest start? */
static int admit(struct gck_core *core, struct gck_agent *agent, const struct gck_registration *r,
		 uid_t uid, const json_t *info, struct gck_error *err)
{
	const struct gck_job *job;
	int rc = gck_registration_job(core, r, uid, info, err);

	job = gck_state_job(&core->state, (uint32_t)r->job);
	if (rc == GCK_COUNTED_AGAIN)
		return counted_again(core, agent, job, info, err);
	if (rc == 0)
		rc = gck_registration_current(r, job->restarts, err);
	if (rc == 0)
		leave_former(core, job);
	else if (job && err->code == ESTALE)
		take_confirmation(core, job, r);
	return rc;
}

/* ---- the registration ------------------------------------------------------------------------ */

bool gck_join_refuses(int code)
{
	return code == EINVAL || code == ERANGE || code == E2BIG || code == ENOENT ||
	       code == ESTALE || code == ECANCELED || code == EACCES || code == ENOTSUP;
}

struct gck_step *gck_join(struct gck_core *core, struct gck_agent *agent, uid_t uid,
			  const json_t *body, const json_t *info, struct gck_error *err)
{
	struct gck_registration r;
	const struct gck_step *step;
	struct gck_job *job;
	uint32_t restarts;
	int rc;

	if (gck_registration_parse(&r, body, err) || admit(core, agent, &r, uid, info, err))
		return NULL;
	step = gck_state_step(&core->state, (uint32_t)r.job, (uint32_t)r.step);
	job = gck_state_job(&core->state, (uint32_t)r.job);
	if (info)
		job->no_requeue = json_is_true(json_object_get(info, "no_requeue"));
	restarts = job->restarts;
	rc = is_same(step, &r, restarts) ? 0 : begin_incarnation(core, agent, &r, restarts, err);
	if (rc) {
		if (rc > 0)
			err->code = 0;
		return NULL;
	}
	return enter(core, agent, &r, err);
}

void gck_join_lost(struct gck_core *core, struct gck_step *step, const struct gck_agent *agent)
{
	struct gck_node *node = gck_live_node(step, agent);

	if (!node)
		return;
	gck_node_left(node, core->world->now_ms());
	gck_failure_agent_left(core, step);
	gck_operation_leave(core, node);
	if (!node->over)
		gck_warn("step %u.%u: the connection to the agent of node %s ended", step->job->id,
			 step->id, node->name);
	gck_live_fail(step, ECONNRESET, "the connection to the agent of node %s ended", node->name);
	gck_raise(core, step, GCK_LOST);
}
