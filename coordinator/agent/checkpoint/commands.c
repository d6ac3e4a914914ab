/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's commands for a checkpoint: how it begins, and what each does to it. */
#include "config.h"

#include "coordinator/agent/checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/events.h"
#include "coordinator/agent/checkpoint/phases.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/checkpoint/rank_request.h"
#include "coordinator/agent/upstream/upstream.h"

static void begin(struct agent *a, const json_t *prepare);

static const struct transaction_ops ops = {
	.advance = phase_advance,
	.drained = phase_freeze,
	.answered = events_answered,
	.progressed = events_progressed,
	.staged = events_staged,
	.worker_ended = events_worker_ended,
	.await_status = events_await_status,
	.next = begin,
};

static void begin(struct agent *a, const json_t *prepare)
{
	const struct gck_options *o = &a->step->options;
	struct transaction *t = calloc(1, sizeof *t);
	struct rank_checkpoint *ranks = calloc(a->tasks.n + 1, sizeof *ranks);

	if (!t || !ranks) {
		free(t);
		free(ranks);
		return;
	}
	t->agent = a;
	t->ops = &ops;
	t->ranks = ranks;
	for (; t->n < a->tasks.n; t->n++)
		rank_checkpoint_init(&ranks[t->n], t, a->tasks.v[t->n]);
	t->prepare = json_incref((json_t *)prepare);
	t->seq = (uint32_t)packet_int(prepare, "seq", 0);
	snprintf(t->nonce, sizeof t->nonce, "%s", packet_text(prepare, "nonce", ""));
	t->keep_held = packet_bool(prepare, "keep_held");
	t->timeout_s = (double)packet_int(prepare, "timeout_ms", o->timeout_ms) / 1000;
	t->hold_s = (double)packet_int(prepare, "hold_ms", o->hold_ms) / 1000;
	t->held_ms = (uint32_t)(1000 * (t->keep_held && t->timeout_s > t->hold_s ? t->timeout_s :
					t->hold_s));
	events_init_timers(t);
	a->transaction = t;
	phase_start(t, PHASE_PREPARE);
}

static void freeze_order(struct transaction *t, const json_t *body)
{
	t->held_write = t->keep_held || packet_bool(body, "held");
	t->hold_s = (double)packet_int(body, "hold_ms", (json_int_t)(t->hold_s * 1000)) / 1000;
}

static void hold_order(struct transaction *t, const json_t *body)
{
	t->leaves |= packet_bool(body, "requeue");
	t->requeued |= packet_bool(body, "requeued");
	transaction_heard(t);
}

static void command(struct transaction *t, enum phase p)
{
	struct gck_error err = { 0 };

	if (t->failed) {
		transaction_answer_failure(t, p);
	} else if (t->answers[p]) {
		upstream_send(t->agent, json_incref(t->answers[p]));
	} else if (t->asked == p) {
		return; /* in progress */
	} else if (t->asked < PHASES || !t->answers[phase_before(p)]) {
		gck_fail(&err, EPROTO, "%s came out of order", phase_names[p]);
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
			transaction_answer_failure(t, PHASE_PREPARE);
		else if (t->answers[PHASE_PREPARE])
			upstream_send(a, json_incref(t->answers[PHASE_PREPARE]));
	} else {
		/* The coordinator has given up the last checkpoint, or forgotten it. */
		json_decref(t->next);
		t->next = json_incref((json_t *)body);
		transaction_abort(t);
	}
}

static void abort_it(struct transaction *t, const json_t *body)
{
	gck_info("checkpoint %u is aborted: %s", t->seq,
		 packet_text(body, "why", "no reason given"));
	transaction_abort(t);
}

void checkpoint_command(struct agent *a, const char *op, const json_t *body)
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
		rank_request_committed(a, t, (uint32_t)packet_int(body, "asked", 0));
		commit_made(a, seq, body);
	} else if (!strcmp(op, "hold")) {
		if (t)
			hold_order(t, body);
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
			freeze_order(t, body);
		command(t, phase_of(op));
	} else {
		gck_fail(&err, ENOENT, "node %s: checkpoint %u is not known here: its agent was "
			 "restarted since", a->step->node, seq);
		answer_failed(a, seq, op, &err, NULL);
	}
}
