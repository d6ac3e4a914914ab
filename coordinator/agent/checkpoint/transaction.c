/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on this node: how it begins, what a command does to it, how it fails and ends. */
#include "config.h"

#include "coordinator/agent/checkpoint/transaction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/commit.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/phases.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/checkpoint/rank_request.h"
#include "coordinator/agent/upstream/answer.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/store_job.h"

#define DISMISS_S 1.        /* for a worker that was told to leave */
#define DISCARD_LIMIT_S 600.

static void begin(struct agent *a, const json_t *prepare);

struct member *transaction_member(struct agent *a, const struct task *task)
{
	struct transaction *t = a->transaction;

	for (size_t i = 0; t && i < t->n; i++)
		if (t->members[i].task == task)
			return &t->members[i];
	return NULL;
}

/* ---- the end of it --------------------------------------------------------------------------- */

unsigned transaction_workers(const struct transaction *t)
{
	unsigned n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->members[i].child != NULL;
	return n;
}

static void discarded(void *data, const json_t *result, const struct gck_error *why)
{
	(void)data;
	if (!result && why->code != ENOENT)
		gck_warn("what an aborted checkpoint left is still in the store: %s", why->text);
}

/* In the background: nobody waits for it. */
static void discard(struct transaction *t)
{
	const struct store_request r = { .step = t->agent->step, .seq = t->seq,
					 .nonce = t->nonce };

	job_start(t->agent->loop, "clean-up in the store", store_discard, &r, DISCARD_LIMIT_S,
		  discarded, NULL, NULL);
}

static void stop_timers(struct transaction *t)
{
	ev_timer *all[] = { &t->limit, &t->hold, &t->status_wait, &t->dismissal, &t->tick,
			    &t->look };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		ev_timer_stop(t->agent->loop, all[i]);
}

static void transaction_free(struct transaction *t)
{
	stop_timers(t);
	if (t->check)
		job_cancel(t->check);
	for (size_t i = 0; i < t->n; i++)
		member_clear(&t->members[i]);
	for (int p = 0; p < PHASES; p++)
		json_decref(t->answers[p]);
	quiesce_clear(t);
	json_decref(t->checked);
	json_decref(t->prepare);
	json_decref(t->next);
	free(t->members);
	free(t);
}

void transaction_leave_if_empty(struct transaction *t)
{
	struct agent *a = t->agent;
	json_t *next = t->next;

	if (!t->aborted || transaction_workers(t))
		return;
	if (!t->over)
		discard(t);
	if (!next)
		answer_plain(a, t->seq, "abort");
	t->next = NULL;
	a->transaction = NULL;
	transaction_free(t);
	if (next)
		begin(a, next);
	json_decref(next);
}

/* All workers are to leave; those that do not are killed. */
static void dismiss(struct transaction *t, bool at_once)
{
	ev_timer *all[] = { &t->limit, &t->hold, &t->status_wait, &t->tick, &t->look };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		ev_timer_stop(t->agent->loop, all[i]);
	if (t->check)
		job_cancel(t->check);
	t->check = NULL;
	for (size_t i = 0; i < t->n; i++)
		member_dismiss(&t->members[i], at_once);
	quiesce_resume(t);
	cuda_resume(t);
	ev_timer_set(&t->dismissal, DISMISS_S, 0.);
	ev_timer_start(t->agent->loop, &t->dismissal);
}

void transaction_on_dismissal(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;

	(void)loop;
	(void)events;
	for (size_t i = 0; i < t->n; i++)
		member_dismiss(&t->members[i], true);
}

static void answer_failure(struct transaction *t, enum phase p)
{
	answer_failed(t->agent, t->seq, phase_names[p], &t->why,
		      t->rank_to_blame ? &t->failed_rank : NULL);
}

void transaction_fail(struct transaction *t, const struct member *m, const struct gck_error *err,
		      bool at_once)
{
	if (t->failed || t->aborted)
		return;
	t->failed = true;
	t->why = *err;
	t->rank_to_blame = m != NULL;
	if (m) {
		t->failed_rank = m->task->rank;
		gck_fail_in(&t->why, "rank %u on %s", m->task->rank, t->agent->step->node);
	} else {
		gck_fail_in(&t->why, "node %s", t->agent->step->node);
	}
	gck_warn("checkpoint %u: %s", t->seq, t->why.text);
	dismiss(t, at_once);
	if (t->asked < PHASES)
		answer_failure(t, t->asked);
	t->asked = PHASES;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void begin(struct agent *a, const json_t *prepare)
{
	const struct gck_options *o = &a->step->options;
	struct transaction *t = calloc(1, sizeof *t);
	struct member *members = calloc(a->tasks.n + 1, sizeof *members);

	if (!t || !members) {
		free(t);
		free(members);
		return;
	}
	t->agent = a;
	t->members = members;
	for (; t->n < a->tasks.n; t->n++)
		member_init(&members[t->n], t, a->tasks.v[t->n]);
	t->prepare = json_incref((json_t *)prepare);
	t->seq = (uint32_t)packet_int(prepare, "seq", 0);
	snprintf(t->nonce, sizeof t->nonce, "%s", packet_text(prepare, "nonce", ""));
	t->keep_held = packet_bool(prepare, "keep_held");
	t->timeout_s = (double)packet_int(prepare, "timeout_ms", o->timeout_ms) / 1000;
	t->hold_s = (double)packet_int(prepare, "hold_ms", o->hold_ms) / 1000;
	transaction_init_timers(t);
	a->transaction = t;
	phase_start(t, PHASE_PREPARE);
}

static void command(struct transaction *t, enum phase p)
{
	struct gck_error err = { 0 };

	if (t->failed) {
		answer_failure(t, p);
	} else if (t->answers[p]) {
		upstream_send(t->agent, json_incref(t->answers[p]));
	} else if (t->asked == p) {
		return; /* it is at it */
	} else if (t->asked < PHASES || !t->answers[phase_before(p)]) {
		gck_fail(&err, EPROTO, "%s came out of turn", phase_names[p]);
		t->asked = p;
		transaction_fail(t, NULL, &err, false);
	} else {
		phase_start(t, p);
	}
}

static void prepare(struct agent *a, const json_t *body)
{
	struct transaction *t = a->transaction;

	if (!t) {
		begin(a, body);
	} else if (t->seq == (uint32_t)packet_int(body, "seq", 0) && !t->aborted) {
		if (t->failed)
			answer_failure(t, PHASE_PREPARE);
		else if (t->answers[PHASE_PREPARE])
			upstream_send(a, json_incref(t->answers[PHASE_PREPARE]));
	} else {
		/* The coordinator has given up the one before, or forgotten it. */
		json_decref(t->next);
		t->next = json_incref((json_t *)body);
		t->aborted = true;
		dismiss(t, false);
		transaction_leave_if_empty(t);
	}
}

void transaction_heard(struct transaction *t)
{
	if (t->keep_held && transaction_held(t))
		phase_hold(t, t->timeout_s);
}

static void abort_it(struct transaction *t, const json_t *body)
{
	gck_info("checkpoint %u is aborted: %s", t->seq,
		 packet_text(body, "why", "no reason given"));
	t->aborted = true;
	dismiss(t, false);
	transaction_leave_if_empty(t);
}

void transaction_command(struct agent *a, const char *op, const json_t *body)
{
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	struct transaction *t = a->transaction;
	struct gck_error err = { 0 };

	if (t && t->seq != seq)
		t = NULL;
	if (!strcmp(op, "prepare")) {
		prepare(a, body);
	} else if (!strcmp(op, "commit")) {
		commit_write(a, seq, body);
	} else if (!strcmp(op, "committed")) {
		if (t)
			t->over = true;
		asks_committed(a, t, (uint32_t)packet_int(body, "asked", 0));
		commit_made(a, seq, body);
	} else if (!strcmp(op, "hold")) {
		if (t)
			transaction_heard(t);
	} else if (!strcmp(op, "abort")) {
		if (t)
			abort_it(t, body);
		else
			answer_plain(a, seq, op);
	} else if (t && !strcmp(op, "go")) {
		quiesce_go(t, body);
	} else if (t) {
		if (!strcmp(op, "quiesce") && t->asked == PHASES)
			quiesce_order(t, body);
		if (!strcmp(op, "freeze") && t->asked == PHASES)
			t->held_write = t->keep_held || packet_bool(body, "held");
		command(t, phase_of(op));
	} else {
		gck_fail(&err, ENOENT, "node %s: checkpoint %u is not known here: its agent was "
			 "started anew", a->step->node, seq);
		answer_failed(a, seq, op, &err, NULL);
	}
}

/* ---- state ----------------------------------------------------------------------------------- */

uint32_t transaction_seq(const struct transaction *t)
{
	return t->aborted || (t->over && !transaction_held(t)) ? 0 : t->seq;
}

bool transaction_held(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (member_held(&t->members[i]))
			return true;
	return false;
}

bool transaction_has_rank(struct agent *a, const struct task *task)
{
	const struct member *m = transaction_member(a, task);

	return m && (m->asked_mpi || m->cuda >= CUDA_DRAINS || member_may_be_held(m));
}
