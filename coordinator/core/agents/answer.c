/* SPDX-License-Identifier: Apache-2.0
 * Answers of agents, and time limits without an answer. */
#include "coordinator/core/agents/answer.h"

#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "coordinator/core/actions/checkpoint.h"
#include "coordinator/core/actions/commit_document.h"
#include "coordinator/core/actions/ending.h"
#include "coordinator/core/actions/failures.h"
#include "coordinator/core/actions/quiesce.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/step_timers.h"
#include "storage/image/image.h"

#define HOLD_MOST_MS (24 * 3600 * 1000)

const char *gck_phase_question(enum gck_phase phase)
{
	switch (phase) {
	case GCK_BUILDING:
		return "build";
	case GCK_FILING:
		return "files";
	case GCK_STARTING:
		return "run";
	case GCK_PREPARING:
		return "prepare";
	case GCK_QUIESCING:
		return "quiesce";
	case GCK_FREEZING:
		return "freeze";
	case GCK_RESUMING:
	case GCK_RELEASING:
		return "resume";
	case GCK_WRITING:
	case GCK_HELD_WRITING:
		return "write";
	case GCK_COMMITTING:
	case GCK_HELD_COMMITTING:
		return "commit";
	case GCK_ABORTING:
		return "abort";
	default:
		return "";
	}
}

static bool is_restart(enum gck_phase phase)
{
	return phase == GCK_BUILDING || phase == GCK_FILING || phase == GCK_STARTING;
}

/* In these phases agents only release ranks; a failure is only logged. */
static bool is_way_out(enum gck_phase phase)
{
	return phase == GCK_ABORTING || phase == GCK_RELEASING;
}

/* ---- what comes with an answer ------------------------------------------------------------- */

/* A rank killed while it is restored cannot be restored again in this step: its process is gone. */
static void check_killed(struct gck_core *core, struct gck_step *step, unsigned rank, int status)
{
	if (!is_restart(step->live->phase) || !WIFSIGNALED(status))
		return;
	gck_live_fail(step, ECHILD, "rank %u was killed by signal %d while it was restored", rank,
		      WTERMSIG(status));
	gck_raise(core, step, GCK_FAILED);
}

void gck_answer_exit(struct gck_core *core, struct gck_step *step, const json_t *one)
{
	json_int_t rank = -1, status = 0;
	json_t *r;

	if (json_unpack((json_t *)one, "{s:I, s:I}", "rank", &rank, "status", &status) ||
	    rank < 0 || rank >= step->ntasks || step->exits[rank] != GCK_NO_EXIT)
		return; /* only the first report of a rank counts */
	r = gck_record(step, "exit");
	json_object_set_new(r, "rank", json_integer(rank));
	json_object_set_new(r, "status", json_integer((int32_t)status));
	gck_core_note(core, r, false);
	check_killed(core, step, (unsigned)rank, (int)status);
	gck_failure_rank_ended(core, step, (unsigned)rank, (int)status);
	gck_finish_check(core, step);
}

void gck_answer_exits(struct gck_core *core, struct gck_step *step, const json_t *body)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(body, "exited"), i, one)
		gck_answer_exit(core, step, one);
}

/* A node lacks memory for the pages that its ranks would change during the write: all ranks are
 * held for that time. */
static void take_needs(struct gck_step *step, const json_t *data)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	if (c->held || !json_is_true(json_object_get(data, "needs_hold")))
		return;
	c->held = true;
	gck_warn("step %u.%u: checkpoint %u is written while its ranks are held: memory is short",
		 step->job->id, step->id, c->seq);
}

/* Managed memory may need longer than hold=auto allows at first. */
static void take_hold(struct gck_step *step, const json_t *data)
{
	json_int_t ms = json_integer_value(json_object_get(data, "hold_ms"));
	unsigned *hold_ms = &step->live->checkpoint.hold_ms;

	ms = ms < HOLD_MOST_MS ? ms : HOLD_MOST_MS;
	if (step->live->options.hold_auto && ms > *hold_ms)
		*hold_ms = (unsigned)ms;
}

static void take_waited(const struct gck_step *step, const json_t *data)
{
	const char *what = json_string_value(json_object_get(data, "waited_for"));

	if (what)
		gck_operation_waited(step, what);
}

static void take_first(int64_t *least, const json_t *data, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(data, key));

	if (v > 0 && (!*least || v < *least))
		*least = v;
}

static void take_last(int64_t *greatest, const json_t *data, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(data, key));

	if (v > *greatest)
		*greatest = v;
}

static void take_times(struct gck_checkpoint *c, const json_t *data)
{
	take_first(&c->first_ns, data, "first_ns");
	take_last(&c->last_ns, data, "last_ns");
	take_first(&c->gpu_first_ns, data, "gpu_first_ns");
	take_last(&c->gpu_last_ns, data, "gpu_last_ns");
}

/* A collective call that one rank's image contains is in the commit for all ranks. */
static void take_asked(struct gck_checkpoint *c, const json_t *data)
{
	json_int_t asked = json_integer_value(json_object_get(data, "asked"));

	if (asked > c->asked && asked <= UINT32_MAX)
		c->asked = (uint32_t)asked;
}

static void take_stage(const struct gck_step *step, const struct gck_node *node, const json_t *data)
{
	struct gck_checkpoint *c = &step->live->checkpoint;
	const char *why = json_string_value(json_object_get(data, "unstaged"));

	c->staged += (uint64_t)json_integer_value(json_object_get(data, "staged"));
	if (!why || !*why)
		return;
	gck_warn("step %u.%u: checkpoint %u: node %s writes to the store directly: %.300s",
		 step->job->id, step->id, c->seq, node->name, why);
	if (!*c->unstaged)
		snprintf(c->unstaged, sizeof c->unstaged, "node %s: %.400s", node->name, why);
}

static int take_images(struct gck_step *step, const json_t *data, struct gck_error *err)
{
	struct gck_checkpoint *c = &step->live->checkpoint;
	double seconds = json_number_value(json_object_get(data, "seconds"));

	c->put += (uint64_t)json_integer_value(json_object_get(data, "put"));
	c->stored += gck_shared_objects_count(c->common, c->common_most,
					      json_object_get(data, "common"),
					      (uint64_t)json_integer_value(
						      json_object_get(data, "stored")));
	if (seconds > c->write_s)
		c->write_s = seconds;
	take_last(&c->free_ns, data, "free_ns");
	return gck_document_add(step, json_object_get(data, "ranks"), err);
}

static int take_hash(struct gck_step *step, const json_t *data, struct gck_error *err)
{
	const char *text = json_string_value(json_object_get(data, "hash"));
	struct gck_hash hash;

	if (!text || gck_hash_parse(text, &hash, err))
		return gck_fail(err, EINVAL, "the agent gave no hash of the commit object");
	memcpy(step->live->checkpoint.hash, text, GCK_HASH_TEXT);
	return 0;
}

/* Agents of older releases do not tell the bytes. */
static void take_built(struct gck_node *node, const json_t *data)
{
	json_int_t bytes = json_integer_value(json_object_get(data, "bytes"));

	if (bytes > 0)
		node->all = (uint64_t)bytes;
	node->done = node->all;
}

static int take(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		const json_t *data, struct gck_error *err)
{
	switch (step->live->phase) {
	case GCK_BUILDING:
		take_built(node, data);
		return 0;
	case GCK_PREPARING:
		gck_answer_exits(core, step, data);
		take_needs(step, data);
		take_hold(step, data);
		take_waited(step, data);
		gck_quiesce_note(node, data);
		return 0;
	case GCK_QUIESCING:
		gck_answer_exits(core, step, data);
		return 0;
	case GCK_FREEZING:
		gck_answer_exits(core, step, data);
		gck_document_exited(step, json_object_get(data, "exited"));
		take_times(&step->live->checkpoint, data);
		take_asked(&step->live->checkpoint, data);
		return 0;
	case GCK_RESUMING:
		take_times(&step->live->checkpoint, data);
		return 0;
	case GCK_WRITING:
	case GCK_HELD_WRITING:
		take_stage(step, node, data);
		return take_images(step, data, err);
	case GCK_COMMITTING:
	case GCK_HELD_COMMITTING:
		return take_hash(step, data, err) || gck_checkpoint_journal(core, step, err) ? -1
											     : 0;
	default:
		return 0;
	}
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void all_answered(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (live->phase == GCK_PREPARING && live->checkpoint.refusal.code) {
		live->error = live->checkpoint.refusal;
		gck_raise(core, step, GCK_FAILED);
	} else {
		gck_raise(core, step, GCK_ALL);
	}
}

static void answered(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	node->answered = true;
	if (gck_live_all_answered(live, is_way_out(live->phase)))
		all_answered(core, step);
	else if (live->phase == GCK_QUIESCING)
		gck_quiesce_check(core, step);
}

/* A reason that passes is told when all nodes have answered: another may have one that does not. */
static void refused_for_now(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;

	if (!live->checkpoint.refusal.code)
		live->checkpoint.refusal = live->error;
	answered(core, step, node);
}

static bool is_current(const struct gck_live *live, const json_t *body)
{
	const char *phase = json_string_value(json_object_get(body, "phase"));
	json_int_t seq = json_integer_value(json_object_get(body, "seq"));
	const char *asked = gck_phase_question(live->phase);

	return *asked && phase && !strcmp(phase, asked) &&
	       seq == (is_restart(live->phase) ? live->plan.seq : live->checkpoint.seq);
}

static void refused(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		    const json_t *body)
{
	const char *why = json_string_value(json_object_get(body, "error"));
	const char *asked = gck_phase_question(step->live->phase);
	const json_t *rank = json_object_get(body, "rank");
	json_int_t said = json_integer_value(json_object_get(body, "code"));
	int code = said > 0 && said < INT_MAX ? (int)said : EIO;

	if (!why || !*why)
		why = "the agent gave no reason";
	if (strstr(why, node->name))
		gck_live_fail(step, code, "%s: %s", asked, why);
	else if (json_is_integer(rank))
		gck_live_fail(step, code, "node %s, rank %d, %s: %s", node->name,
			      (int)json_integer_value(rank), asked, why);
	else
		gck_live_fail(step, code, "node %s, %s: %s", node->name, asked, why);
	if (is_way_out(step->live->phase)) {
		gck_error_log("step %u.%u: %s", step->job->id, step->id, step->live->error.text);
		answered(core, step, node);
	} else if (step->live->phase == GCK_PREPARING && code == EAGAIN) {
		refused_for_now(core, step, node);
	} else {
		gck_raise(core, step, GCK_FAILED);
	}
}

void gck_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		const json_t *body)
{
	bool good = json_is_true(json_object_get(body, "ok"));
	struct gck_error err = {0};

	/* A late answer, or a second one to the same order. But what a node had built can still be
	 * lost. */
	if (!is_current(step->live, body) ||
	    (node->answered && (good || !is_restart(step->live->phase))))
		return;
	if (!good) {
		refused(core, step, node, body);
		return;
	}
	if (take(core, step, node, json_object_get(body, "data"), &err)) {
		gck_live_fail(step, err.code, "node %s: %s", node->name, err.text);
		gck_raise(core, step, GCK_FAILED);
		return;
	}
	answered(core, step, node);
}

/* ---- progress, the end, silence ------------------------------------------------------------ */

static bool may_take_long(enum gck_phase phase)
{
	return phase == GCK_WRITING || phase == GCK_HELD_WRITING || phase == GCK_BUILDING;
}

void gck_answer_progress(struct gck_core *core, struct gck_step *step, struct gck_node *node,
			 const json_t *body)
{
	struct gck_live *live = step->live;
	json_int_t done = json_integer_value(json_object_get(body, "done"));
	json_int_t all = json_integer_value(json_object_get(body, "all"));
	json_int_t sent = json_integer_value(json_object_get(body, "sent"));
	json_int_t staged = json_integer_value(json_object_get(body, "staged"));

	if (!may_take_long(live->phase) || done < 0 || all < 0 || sent < 0 || staged < 0)
		return;
	/* Only more bytes are progress: an agent that repeats its numbers is stalled. */
	if ((uint64_t)done > node->done || (uint64_t)sent > node->sent)
		gck_live_phase_timer(core, step, live->options.timeout_ms);
	node->done = (uint64_t)done;
	node->all = (uint64_t)all;
	node->sent = (uint64_t)sent;
	node->staged = (uint64_t)staged;
	gck_operation_progress(core, step);
}

/* Before the freeze this node's ranks enter the commit as their exit status; from then on their
 * images are needed. */
static bool bye_is_failure(const struct gck_live *live, const struct gck_node *node)
{
	switch (live->phase) {
	case GCK_FREEZING:
	case GCK_RESUMING:
	case GCK_WRITING:
	case GCK_HELD_WRITING:
	case GCK_COMMITTING:
	case GCK_HELD_COMMITTING:
	case GCK_BUILDING:
	case GCK_FILING:
		return !node->answered;
	default:
		return false;
	}
}

/* No agent will register there again: a restarted coordinator must not wait for one. */
static void note_bye(struct gck_core *core, const struct gck_step *step, uint32_t node)
{
	json_t *r = gck_record(step, "bye");

	json_object_set_new(r, "node", json_integer(node));
	gck_core_note(core, r, false);
}

void gck_answer_bye(struct gck_core *core, struct gck_step *step, struct gck_node *node)
{
	struct gck_live *live = step->live;
	bool failed = bye_is_failure(live, node);

	node->over = true;
	note_bye(core, step, (uint32_t)(node - live->nodes));
	gck_finish_check(core, step);
	gck_failure_agent_left(core, step);
	if (gck_live_all_over(live)) {
		gck_raise(core, step, GCK_ENDED);
		return;
	}
	if (failed) {
		gck_live_fail(step, ECONNRESET, "node %s, %s: the step ended there first",
			      node->name, gck_phase_question(live->phase));
		gck_raise(core, step, GCK_FAILED);
	} else if (*gck_phase_question(live->phase) && !node->answered) {
		answered(core, step, node);
	} else if (live->phase == GCK_ENDING && node->script) {
		gck_hold_send(core, step); /* the other nodes' ranks may end now */
	}
}

void gck_answer_timeout(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	const struct gck_node *silent;
	const char *asked;

	if (!live)
		return;
	silent = gck_live_silent(live);
	asked = gck_phase_question(live->phase);
	if (silent && *asked)
		gck_live_fail(step, ETIMEDOUT, "node %s, %s: %s in time%s", silent->name, asked,
			      may_take_long(live->phase) ? "made no progress" : "did not answer",
			      silent->agent ? "" : "; its agent is not connected");
	else if (live->phase >= GCK_PREPARED && live->phase <= GCK_RESUMED)
		gck_live_fail(step, ETIMEDOUT, "%s, it could wait no longer for the other steps of "
			      "its job", gck_phase_name(live->phase));
	else if (live->phase == GCK_GATHERING)
		gck_live_fail(step, ETIMEDOUT, "not every node's agent has registered within "
			      "restart-wait=%us", live->options.restart_wait_s);
	else
		gck_live_fail(step, ETIMEDOUT, "the time is up while %s",
			      gck_phase_name(live->phase));
	gck_raise(core, step, GCK_TIMEOUT);
}
