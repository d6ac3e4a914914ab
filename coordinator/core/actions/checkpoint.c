/* SPDX-License-Identifier: Apache-2.0
 * The actions of a checkpoint. A failure is left in live->error and raised as GCK_FAILED; the abort
 * (ending.c) then releases every rank. */
#include "coordinator/core/actions/checkpoint.h"

#include "common/base/log.h"
#include "coordinator/core/actions/actions.h"
#include "coordinator/core/actions/commit_document.h"
#include "coordinator/core/actions/ending.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/requeue.h"
#include "coordinator/core/retention/expire.h"
#include "coordinator/core/retention/removal.h"

#define CALL_MS 3000 /* the wait for a missing agent */

static void give_up(struct gck_core *core, struct gck_step *step, const struct gck_error *err)
{
	step->live->error = *err;
	gck_raise(core, step, GCK_FAILED);
}

/* ---- calling -------------------------------------------------------------------------------- */

void gck_act_called(struct gck_core *core, struct gck_step *step)
{
	if (gck_live_all_known(step->live))
		gck_raise(core, step, GCK_ALL);
}

/* A killed agent is replaced within a second. */
void gck_act_call(struct gck_core *core, struct gck_step *step)
{
	core->world->timer(core, step, GCK_TIMER_INTERVAL, 0);
	gck_live_phase_timer(core, step, CALL_MS);
	gck_act_called(core, step);
}

/* ---- prepare -------------------------------------------------------------------------------- */

static int journal_intent(struct gck_core *core, struct gck_step *step, struct gck_error *err)
{
	struct gck_checkpoint *c = &step->live->checkpoint;
	char nonce[GCK_NONCE_TEXT];
	json_t *r = gck_record_seq(step, "intent", step->last_seq + 1);

	core->world->nonce(nonce);
	json_object_set_new(r, "nonce", json_string(nonce));
	json_object_set_new(r, "held", json_boolean(c->keep_held));
	json_object_set_new(r, "reason", json_string(c->reason));
	if (gck_core_record(core, r, true, err))
		return -1;
	c->seq = step->intent.seq;
	return 0;
}

/* If the journal does not know which numbers were given, the store must be read. Node 0's agent
 * reads it again when it reconnects. */
static int know_numbers(struct gck_core *core, struct gck_step *step, struct gck_error *err)
{
	struct gck_node *first = &step->live->nodes[0];
	struct gck_agent *agent = first->agent;

	if (step->listed)
		return 0;
	gck_fail(err, EIO, "which commits step %u.%u has is not known, for node %s could not read "
		 "the store (%s)", step->job->id, step->id, first->name,
		 first->store_error ? first->store_error : "no reason given");
	if (agent) {
		gck_node_left(first, core->world->now_ms());
		core->world->drop(agent);
	}
	return -1;
}

int gck_checkpoint_ready(const struct gck_step *step, struct gck_error *err)
{
	const struct gck_node *missing = gck_live_missing(step->live);

	if (step->job->requeued)
		return gck_fail(err, ECANCELED, "job %u was requeued meanwhile", step->job->id);
	if (missing)
		return gck_fail(err, ENOTCONN,
				"the agent of node %s is not connected; if the node lives, "
				"see the agent's log there",
				*missing->name ? missing->name : "?");
	if (gck_step_ended(step) == step->ntasks)
		return gck_fail(err, ESRCH,
				"every rank has finished; there is nothing to checkpoint");
	return gck_document_fits(step, err);
}

/* Chunks of the base are not written again, so the base must be a valid commit that no restart
 * found damaged. */
static json_t *prepare_order(const struct gck_step *step)
{
	const struct gck_live *live = step->live;
	const struct gck_commit *base = gck_step_newest(step, 0);
	json_t *body = gck_live_order("prepare", step);

	json_object_set_new(body, "nonce", json_string(step->intent.nonce));
	json_object_set_new(body, "reason", json_string(live->checkpoint.reason));
	json_object_set_new(body, "keep_held", json_boolean(live->checkpoint.keep_held));
	json_object_set_new(body, "timeout_ms", json_integer(live->options.timeout_ms));
	json_object_set_new(body, "hold_ms", json_integer(live->options.hold_ms));
	gck_encrypt_tell(step, body);
	json_object_set_new(body, "base", json_integer(base ? base->seq : 0));
	json_object_set_new(body, "base_hash", json_string(base ? base->hash : ""));
	return body;
}

void gck_act_prepare(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	struct gck_checkpoint *c = &live->checkpoint;
	struct gck_error err = {0};

	c->began_ms = core->world->now_ms();
	c->held = c->keep_held;
	c->hold_ms = 0;
	if (gck_checkpoint_ready(step, &err) || know_numbers(core, step, &err) ||
	    (!c->keep_held && gck_quota_check(core, step->job->uid, 0, &err)) ||
	    gck_encrypt_ready(core, step, &err) || journal_intent(core, step, &err)) {
		give_up(core, step, &err);
		return;
	}
	gck_info("step %u.%u: checkpoint %u begins: %s", step->job->id, step->id, c->seq,
		 c->reason);
	gck_live_phase_timer(core, step, live->options.timeout_ms);
	gck_live_ask_all(core, step, prepare_order(step));
	gck_operation_phase(core, step);
}

/* ---- freeze to commit ----------------------------------------------------------------------- */

static unsigned hold_ms(const struct gck_live *live)
{
	const unsigned needed = live->checkpoint.hold_ms, given = live->options.hold_ms;

	return needed > given ? needed : given;
}

/* GPUs are drained differently if ranks stay held until they are written. */
static json_t *freeze_order(const struct gck_step *step)
{
	json_t *body = gck_live_order("freeze", step);

	json_object_set_new(body, "held", json_boolean(step->live->checkpoint.held));
	json_object_set_new(body, "hold_ms", json_integer(hold_ms(step->live)));
	return body;
}

void gck_act_freeze(struct gck_core *core, struct gck_step *step)
{
	struct gck_error err = {0};

	if (gck_checkpoint_ready(step, &err)) {
		give_up(core, step, &err);
		return;
	}
	if (gck_document_begin(core, step)) {
		gck_live_fail(step, ENOMEM, "no memory for the list of ranks");
		gck_raise(core, step, GCK_FAILED);
		return;
	}
	gck_live_phase_timer(core, step, hold_ms(step->live));
	gck_live_ask_all(core, step, freeze_order(step));
}

void gck_act_resume(struct gck_core *core, struct gck_step *step)
{
	gck_live_phase_timer(core, step, hold_ms(step->live));
	gck_live_ask_all(core, step, gck_live_order("resume", step));
}

/* Its ranks run: it can wait for steps that are held longer. */
void gck_act_resumed(struct gck_core *core, struct gck_step *step)
{
	gck_live_phase_timer(core, step, step->live->options.timeout_ms);
	gck_operation_meet(core, step);
}

void gck_act_write(struct gck_core *core, struct gck_step *step)
{
	step->live->checkpoint.written_ms = core->world->now_ms();
	gck_live_phase_timer(core, step, step->live->options.timeout_ms);
	gck_live_ask_all(core, step, gck_live_order("write", step));
	gck_operation_phase(core, step);
}

static json_t *commit_order(struct gck_core *core, const struct gck_step *step)
{
	json_t *body = gck_live_order("commit", step);

	json_object_set_new(body, "document", gck_document(core, step));
	return body;
}

/* One agent writes the commit object; the others have nothing to answer. */
static void ask_writer(struct gck_core *core, struct gck_step *step)
{
	struct gck_node *writer = NULL;

	for (uint32_t i = 0; i < step->live->nnodes; i++) {
		struct gck_node *node = &step->live->nodes[i];

		node->answered = writer || node->over;
		if (!node->answered)
			writer = node;
	}
	if (writer)
		gck_live_send(core, writer, commit_order(core, step));
}

/* The record is replayed at every start, so it must be valid. */
static int check_begun(const struct gck_step *step, struct gck_error *err)
{
	uint32_t seq = step->live->checkpoint.seq;

	return step->intent.seq == seq ? 0
				       : gck_fail(err, ECANCELED,
						  "checkpoint %u of step %u.%u was given up",
						  seq, step->job->id, step->id);
}

void gck_act_commit(struct gck_core *core, struct gck_step *step)
{
	struct gck_error err = {0};
	json_t *r;

	if (check_begun(step, &err) || gck_document_check(step, &err)) {
		give_up(core, step, &err);
		return;
	}
	r = gck_record_seq(step, "committing", step->live->checkpoint.seq);
	json_object_set_new(r, "info", gck_document_info(core, step));
	if (gck_core_record(core, r, true, &err)) {
		give_up(core, step, &err);
		return;
	}
	gck_live_phase_timer(core, step, step->live->options.timeout_ms);
	ask_writer(core, step);
	gck_operation_phase(core, step);
}

static json_t *commit_record(struct gck_core *core, const struct gck_step *step)
{
	json_t *r = gck_record_seq(step, "commit", step->intent.seq);

	json_object_set_new(r, "restarts", json_integer(step->restarts));
	json_object_set_new(r, "hash", json_string(step->live->checkpoint.hash));
	json_object_set_new(r, "time", json_integer(core->world->now_ms() / 1000));
	json_object_set_new(r, "keep", json_integer(step->live->options.keep));
	if (step->intent.info)
		json_object_set(r, "info", step->intent.info);
	return r;
}

int gck_checkpoint_journal(struct gck_core *core, struct gck_step *step, struct gck_error *err)
{
	return gck_core_record(core, commit_record(core, step), true, err);
}

void gck_checkpoint_found(struct gck_core *core, struct gck_step *step)
{
	gck_core_note(core, commit_record(core, step), true);
}

static void tell_committed(struct gck_core *core, struct gck_step *step, uint32_t seq)
{
	const struct gck_commit *newest = gck_step_commit(step, seq);
	json_t *body = json_pack("{s:s, s:I, s:s, s:[]}", "op", "committed", "seq", (json_int_t)seq,
				 "hash", newest ? newest->hash : "", "keep");

	for (const struct gck_commit *c = step->commits; c; c = c->older)
		json_array_append_new(json_object_get(body, "keep"), json_integer(c->seq));
	if (step->live->checkpoint.asked)
		json_object_set_new(body, "asked", json_integer(step->live->checkpoint.asked));
	gck_live_send_all(core, step, body);
}

/* Order an agent of the step to remove expired commits of its user. */
static void order_sweep(struct gck_core *core, struct gck_step *step)
{
	const struct gck_live *live = step->live;
	json_t *orders;
	uint32_t i = 0;

	while (i < live->nnodes && (live->nodes[i].over || !live->nodes[i].agent))
		i++;
	if (i == live->nnodes)
		return;
	orders = gck_sweep_orders(core, step->uid);
	if (json_array_size(orders))
		gck_live_send(core, &live->nodes[i], json_pack("{s:s, s:O}", "op", "sweep", "steps",
							       orders));
	json_decref(orders);
}

void gck_act_committed(struct gck_core *core, struct gck_step *step)
{
	struct gck_checkpoint *c = &step->live->checkpoint;
	bool held = step->live->phase == GCK_HELD;
	bool kept = held && c->keep_held;

	tell_committed(core, step, c->seq);
	step->live->failures = 0;
	*step->live->last_error = *step->live->said_error = '\0';
	if (c->asked > step->live->all_done)
		step->live->all_done = c->asked;
	gck_info("step %u.%u: checkpoint %u is committed (%.1f MiB put, %.1f MiB stored)%s",
		 step->job->id, step->id, c->seq, (double)c->put / (1 << 20),
		 (double)c->stored / (1 << 20), kept ? "; its ranks are held" : "");
	gck_operation_committed(core, step, kept);
	gck_live_phase_timer(core, step, 0);
	if (!held)
		gck_act_idle(core, step);
	else if (!kept)
		gck_raise(core, step, GCK_RELEASE);
	gck_expire_user(core, step->job->uid);
	if (!kept) /* else its agents are about to end */
		order_sweep(core, step);
}

/* ---- who was away --------------------------------------------------------------------------- */

/* The commit object was written before the coordinator went away: the commit is valid. */
void gck_act_adopt(struct gck_core *core, struct gck_step *step)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	gck_info("step %u.%u: checkpoint %u was committed while the coordinator was away",
		 step->job->id, step->id, c->seq);
	tell_committed(core, step, c->seq);
	gck_live_phase_timer(core, step, 0);
	gck_requeue_recovered(core, step);
}

static json_t *repeated(struct gck_core *core, const struct gck_step *step)
{
	switch (step->live->phase) {
	case GCK_PREPARING:
		return prepare_order(step);
	case GCK_ABORTING:
		return step->live->checkpoint.waits ? NULL : gck_abort_order(step);
	case GCK_RELEASING: /* ranks that a requeue ends do not run again before */
		return step->job->requeued ? NULL : gck_live_order("resume", step);
	case GCK_WRITING:
	case GCK_HELD_WRITING:
		return gck_live_order("write", step);
	case GCK_COMMITTING:
	case GCK_HELD_COMMITTING:
		return commit_order(core, step);
	default:
		return NULL;
	}
}

/* The agent that came back may have missed the order. */
void gck_act_repeat(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	json_t *body = repeated(core, step);

	for (uint32_t i = 0; body && i < live->nnodes; i++)
		if (live->nodes[i].back && !live->nodes[i].answered)
			gck_live_send(core, &live->nodes[i], json_incref(body));
	json_decref(body);
}
