/* SPDX-License-Identifier: Apache-2.0
 * A registration: believed, journaled, and answered. */
#include "coordinator/daemon/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/daemon/answer.h"
#include "coordinator/daemon/checkpoint.h"
#include "coordinator/daemon/interval.h"
#include "coordinator/daemon/operation.h"
#include "coordinator/daemon/restart.h"

#define RECOVER_MS 5000 /* how long a commit object is looked for, with ranks perhaps held */

struct registration {
	json_int_t job, step, node_id, nodes, ntasks, restarts, seq;
	const char *node, *options, *store, *state_name;
	json_t *fingerprint;
	enum gck_agent_state state;
	const json_t *body;
};

/* ---- parsing ------------------------------------------------------------------------------- */

static int parse_state(struct registration *r, struct gck_error *err)
{
	static const char *const names[] = {"new", "running", "held", "restoring"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i], r->state_name)) {
			r->state = (enum gck_agent_state)i;
			return 0;
		}
	return gck_fail(err, EINVAL, "register has the unknown state \"%s\"", r->state_name);
}

static int parse(struct registration *r, const json_t *body, struct gck_error *err)
{
	json_error_t bad;

	memset(r, 0, sizeof *r);
	r->body = body;
	if (json_unpack_ex((json_t *)body, &bad, 0,
			   "{s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:s, s?I}", "job",
			   &r->job, "step", &r->step, "node", &r->node, "node_id", &r->node_id, "nodes",
			   &r->nodes, "ntasks", &r->ntasks, "restarts", &r->restarts, "options",
			   &r->options, "store", &r->store, "fingerprint", &r->fingerprint, "state",
			   &r->state_name, "seq", &r->seq))
		return gck_fail(err, EINVAL, "register is malformed: %s", bad.text);
	if (r->job < 1 || r->job > UINT32_MAX || r->step < 0 || r->step > UINT32_MAX ||
	    r->nodes < 1 || r->nodes > GCK_MAX_NODES || r->ntasks < 1 || r->ntasks > GCK_MAX_TASKS ||
	    r->node_id < 0 || r->node_id >= r->nodes || r->restarts < 0 ||
	    r->restarts > UINT32_MAX || r->seq < 0 || r->seq > UINT32_MAX)
		return gck_fail(err, ERANGE, "register has a number out of range");
	if (!json_is_object(r->fingerprint))
		return gck_fail(err, EINVAL, "register has no fingerprint");
	return parse_state(r, err);
}

/* ---- the job ------------------------------------------------------------------------------- */

bool gck_join_needs_slurm(const struct gck_core *core, const json_t *body, uid_t uid)
{
	struct registration r;
	const struct gck_job *job;
	const struct gck_step *step;

	if (parse(&r, body, NULL))
		return false; /* it is refused without Slurm's help */
	job = gck_state_job(&core->state, (uint32_t)r.job);
	step = gck_state_step(&core->state, (uint32_t)r.job, (uint32_t)r.step);
	return !step || job->uid != uid || job->gone || job->restarts != (uint32_t)r.restarts ||
	       step->restarts != job->restarts || r.state == GCK_AGENT_NEW;
}

/* Slurm gave the id to another job. */
static bool is_fresh(const struct gck_job *job, uid_t uid, json_int_t restarts, json_int_t submit)
{
	return job->gone || job->uid != uid || restarts < job->restarts ||
	       (restarts == job->restarts && submit != job->submit);
}

static int no_such_job(const struct registration *r, struct gck_error *err)
{
	return gck_fail(err, ENOENT, "there is no job %d of yours", (int)r->job);
}

static int take_job(struct gck_core *core, const struct registration *r, uid_t uid,
		    const json_t *info, struct gck_error *err)
{
	struct gck_job *job = gck_state_job(&core->state, (uint32_t)r->job);
	json_int_t owner, restarts, submit;
	const char *user;
	int batch, fresh;

	if (!info)
		return job && job->uid == uid ? 0 : no_such_job(r, err);
	if (json_unpack((json_t *)info, "{s:I, s:s, s:I, s:I, s:b}", "uid", &owner, "user", &user,
			"restarts", &restarts, "submit", &submit, "batch", &batch))
		return gck_fail(err, EPROTO, "Slurm's word on job %d is malformed", (int)r->job);
	if ((uid_t)owner != uid)
		return no_such_job(r, err);
	fresh = job && is_fresh(job, uid, restarts, submit);
	if (job && !fresh && restarts == job->restarts)
		return 0;
	if (fresh)
		gck_info("job %u is another job than the one before it; nothing is restarted from that",
			 job->id);
	return gck_core_record(core, json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:b, s:b}", "t", "job",
					       "job", r->job, "uid", owner, "user", user, "restarts",
					       restarts, "submit", submit, "batch", batch, "fresh",
					       fresh), true, err);
}

/* ---- the step ------------------------------------------------------------------------------ */

void gck_join_end(struct gck_core *core, struct gck_step *step)
{
	if (!step->live)
		return;
	gck_raise(core, step, GCK_ENDED);
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		if (step->live->nodes[i].agent)
			core->world->drop(step->live->nodes[i].agent);
	core->world->timer(core, step, GCK_TIMER_PHASE, 0);
	core->world->timer(core, step, GCK_TIMER_INTERVAL, 0);
	gck_live_free(step);
}

static int journal_step(struct gck_core *core, const struct registration *r, uint32_t restarts,
			struct gck_error *err)
{
	return gck_core_record(core, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:O}", "t",
					       "step", "job", r->job, "step", r->step, "restarts",
					       (json_int_t)restarts, "nodes", r->nodes, "ntasks",
					       r->ntasks, "store", r->store, "options", r->options,
					       "fingerprint", r->fingerprint), true, err);
}

/* What the incarnation before leaves behind that is not decided. */
static void close_former(struct gck_core *core, struct gck_step *step)
{
	gck_join_end(core, step);
	if (step->intent.seq && !step->intent.committing)
		gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
}

static bool is_same(const struct gck_step *step, const struct registration *r, uint32_t restarts)
{
	return step && json_is_object(step->fingerprint) && step->restarts == restarts &&
	       step->nodes == r->nodes && step->ntasks == r->ntasks;
}

/* A new incarnation, or a step that is not known. 1: the agent was told that it does not start. */
static int begin_incarnation(struct gck_core *core, struct gck_agent *agent,
			     const struct registration *r, uint32_t restarts, struct gck_error *err)
{
	struct gck_step *step = gck_state_step(&core->state, (uint32_t)r->job, (uint32_t)r->step);
	bool finished = step && step->finished;
	struct gck_options options;
	json_t *verdict = NULL;

	gck_options_init(&options);
	if (gck_options_parse(&options, r->options, err))
		return -1;
	if (step && r->state == GCK_AGENT_NEW)
		verdict = gck_restart_verdict(core, step, r->fingerprint, &options);
	if (verdict) {
		core->world->send(agent, verdict);
		json_decref(verdict);
		return 1;
	}
	if (step)
		close_former(core, step);
	if (journal_step(core, r, restarts, err))
		return -1;
	/* skip-done=no: what was done is done again, not its last part. */
	return finished ? gck_core_record(core, gck_record_seq(step, "run", 0), true, err) : 0;
}

static void begin_live(struct gck_core *core, struct gck_step *step, enum gck_agent_state state)
{
	struct gck_live *live = step->live;

	live->phase_since_ms = core->world->now_ms();
	if (state == GCK_AGENT_NEW || state == GCK_AGENT_RESTORING) {
		live->phase = GCK_GATHERING;
		core->world->timer(core, step, GCK_TIMER_PHASE, gck_ms(live->options.restart_wait_s));
	} else if (step->intent.seq && step->intent.committing) {
		live->phase = GCK_RECOVERING;
		live->checkpoint.seq = step->intent.seq;
		live->checkpoint.keep_held = step->intent.held;
		gck_live_fail(step, EINTR, "the coordinator was away while checkpoint %u was committed, "
			      "and its commit was not found", step->intent.seq);
		core->world->timer(core, step, GCK_TIMER_PHASE, RECOVER_MS);
	} else {
		live->phase = GCK_IDLE;
		if (step->intent.seq)
			gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
		gck_interval_arm(core, step);
	}
}

/* ---- the node ------------------------------------------------------------------------------ */

static void replace_json(json_t **to, const json_t *body, const char *key)
{
	json_t *value = json_object_get(body, key);

	json_decref(*to);
	*to = json_is_array(value) ? json_incref(value) : NULL;
}

static void fill_node(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		      struct gck_agent *agent, const struct registration *r)
{
	const char *store_error = json_string_value(json_object_get(r->body, "store_error"));
	struct gck_agent *former = node->agent;

	if (former && former != agent) {
		node->agent = NULL;
		gck_live_fail(step, ECONNRESET, "the agent of node %s connected anew", node->name);
		gck_raise(core, step, GCK_LOST);
		core->world->drop(former);
	}
	node->agent = agent;
	node->known = true;
	node->over = false;
	node->state = r->state;
	node->seq = (uint32_t)r->seq;
	if (!gck_node_runs(node))
		node->welcomed = node->answered = false;
	snprintf(node->name, sizeof node->name, "%s", r->node);
	replace_json(&node->ranks, r->body, "local_ranks");
	replace_json(&node->commits, r->body, "commits");
	free(node->store_error);
	node->store_error = store_error ? strdup(store_error) : NULL;
}

static void take_commits(struct gck_core *core, struct gck_step *step, const struct gck_node *node,
			 bool was_known)
{
	bool first = node == &step->live->nodes[0];
	bool runs = gck_node_runs(node);
	uint32_t before = step->restarts ? step->restarts - 1 : 0;

	if (!first || !node->commits || step->live->phase == GCK_RECOVERING)
		return;
	gck_restart_take_over(core, step, node->commits, runs ? !was_known : step->restarts > 0,
			      runs ? step->restarts : before);
	/* What may have been committed in the incarnation before was not. */
	if (!runs && step->intent.seq)
		gck_core_note(core, gck_record_seq(step, "abort", step->intent.seq), true);
}

/* Node 0 tells whether the commit object that was being written is there. */
static void recover(struct gck_core *core, struct gck_step *step, const struct gck_node *node)
{
	struct gck_error err = {0};
	json_t *one;
	size_t i;

	if (node != &step->live->nodes[0] || !node->commits)
		return;
	json_array_foreach(node->commits, i, one) {
		const char *hash = json_string_value(json_object_get(one, "hash"));

		if (json_integer_value(json_object_get(one, "seq")) != step->intent.seq || !hash)
			continue;
		snprintf(step->live->checkpoint.hash, GCK_HASH_TEXT, "%s", hash);
		if (gck_checkpoint_journal(core, step, &err))
			break;
		gck_raise(core, step, GCK_FOUND);
		return;
	}
	if (err.code)
		step->live->error = err;
	gck_raise(core, step, GCK_MISSING);
}

/* ---- the welcome --------------------------------------------------------------------------- */

static void send_seq(struct gck_core *core, struct gck_node *node, const char *op)
{
	gck_live_send(core, node, json_pack("{s:s, s:I, s:s}", "op", op, "seq", (json_int_t)node->seq,
					    "why", "the coordinator was restarted"));
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

/* Ranks held for a commit that the journal has: what was to follow was a requeue, or their end. */
static void take_up_held(struct gck_core *core, struct gck_step *step, const struct gck_node *node)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	if (step->live->phase != GCK_IDLE || c->operation)
		return;
	c->seq = node->seq;
	c->keep_held = true;
	gck_raise(core, step, GCK_FOUND);
}

/* A node that runs may have a checkpoint on its hands. */
static void settle(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	if (live->phase == GCK_RECOVERING)
		recover(core, step, node);
	else if (!node->seq)
		gck_raise(core, step, GCK_BACK);
	else if (live->checkpoint.seq == node->seq)
		gck_raise(core, step, GCK_BACK);
	else if (!gck_step_commit(step, node->seq))
		send_seq(core, node, "abort");
	else if (node->state == GCK_AGENT_HELD)
		take_up_held(core, step, node);
	else
		send_committed(core, step, node);
}

static bool wants_start(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].known && !live->nodes[i].welcomed && !gck_node_runs(&live->nodes[i]))
			return true;
	return false;
}

static void welcome(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	if (gck_node_runs(node)) {
		node->welcomed = true;
		gck_live_send(core, node, gck_welcome(core, step, "run"));
		settle(core, step, node);
	} else if (live->refused) {
		gck_restart_refuse(core, step, node);
		return;
	} else {
		gck_raise(core, step, GCK_BACK);
	}
	if (step->live && (live->phase == GCK_GATHERING || live->phase == GCK_IDLE) &&
	    (wants_start(live) || live->phase == GCK_GATHERING))
		gck_restart_decide(core, step, node);
}

static void take_exited(struct gck_core *core, struct gck_step *step, const json_t *body)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(body, "exited"), i, one)
		gck_answer_exit(core, step, one);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static struct gck_step *enter(struct gck_core *core, struct gck_agent *agent,
			      const struct registration *r, bool was_known, struct gck_error *err)
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
	gck_info("step %u.%u: the agent of node %s is here (%s)", step->job->id, step->id, node->name,
		 r->state_name);
	take_commits(core, step, node, was_known);
	take_exited(core, step, r->body);
	welcome(core, step, node);
	return step;
}

struct gck_step *gck_join(struct gck_core *core, struct gck_agent *agent, uid_t uid,
			  const json_t *body, const json_t *info, struct gck_error *err)
{
	struct registration r;
	const struct gck_step *step;
	uint32_t restarts;
	bool known;
	int rc;

	if (parse(&r, body, err) || take_job(core, &r, uid, info, err))
		return NULL;
	step = gck_state_step(&core->state, (uint32_t)r.job, (uint32_t)r.step);
	restarts = gck_state_job(&core->state, (uint32_t)r.job)->restarts;
	/* SLURM_RESTART_COUNT may have been lost on the way to a new agent; another count is old. */
	if ((r.state != GCK_AGENT_NEW || r.restarts > 0) && r.restarts < restarts) {
		gck_fail(err, ESTALE, "job %d was requeued and runs elsewhere; this is its start %d, the "
			 "last is %u", (int)r.job, (int)r.restarts, restarts);
		return NULL;
	}
	known = is_same(step, &r, restarts);
	rc = known ? 0 : begin_incarnation(core, agent, &r, restarts, err);
	if (rc) {
		if (rc > 0)
			err->code = 0;
		return NULL;
	}
	return enter(core, agent, &r, known, err);
}

void gck_join_lost(struct gck_core *core, struct gck_step *step, const struct gck_agent *agent)
{
	struct gck_node *node = gck_live_node(step, agent);

	if (!node)
		return;
	node->agent = NULL;
	if (!node->over)
		gck_warn("step %u.%u: the connection to the agent of node %s ended", step->job->id,
			 step->id, node->name);
	gck_live_fail(step, ECONNRESET, "the connection to the agent of node %s ended", node->name);
	gck_raise(core, step, GCK_LOST);
}
