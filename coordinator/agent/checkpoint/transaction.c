/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on this node: its time limits and state, how it fails and how it ends. */
#include "config.h"

#include "coordinator/agent/checkpoint/transaction.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/store_job.h"

#define DISMISS_S 1.        /* for a worker that was told to leave */
#define DISCARD_LIMIT_S 600.

struct rank_checkpoint *transaction_rank(struct agent *a, const struct task *task)
{
	struct transaction *t = a->transaction;

	for (size_t i = 0; t && i < t->n; i++)
		if (t->ranks[i].task == task)
			return &t->ranks[i];
	return NULL;
}

/* ---- failure and end ----------------------------------------------------------------------- */

unsigned transaction_workers(const struct transaction *t)
{
	unsigned n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->ranks[i].child != NULL;
	return n;
}

static void discarded(void *data, const json_t *result, const struct gck_error *why)
{
	(void)data;
	if (!result && why->code != ENOENT)
		gck_warn("data of an aborted checkpoint is still in the store: %s", why->text);
}

/* In the background: its end is not awaited. */
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
		rank_checkpoint_clear(&t->ranks[i]);
	for (int p = 0; p < PHASES; p++)
		json_decref(t->answers[p]);
	quiesce_clear(t);
	json_decref(t->checked);
	json_decref(t->prepare);
	json_decref(t->next);
	free(t->ranks);
	free(t);
}

void transaction_leave_if_empty(struct transaction *t)
{
	const struct transaction_ops *ops = t->ops;
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
		ops->next(a, next);
	json_decref(next);
}

/* All workers are told to leave; those that stay are killed. */
static void dismiss(struct transaction *t, bool at_once)
{
	ev_timer *all[] = { &t->limit, &t->hold, &t->status_wait, &t->tick, &t->look };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		ev_timer_stop(t->agent->loop, all[i]);
	if (t->check)
		job_cancel(t->check);
	t->check = NULL;
	for (size_t i = 0; i < t->n; i++)
		rank_checkpoint_dismiss(&t->ranks[i], at_once);
	quiesce_resume(t);
	gpu_resume(t);
	ev_timer_set(&t->dismissal, DISMISS_S, 0.);
	ev_timer_start(t->agent->loop, &t->dismissal);
}

void transaction_on_dismissal(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;

	(void)loop;
	(void)events;
	for (size_t i = 0; i < t->n; i++)
		rank_checkpoint_dismiss(&t->ranks[i], true);
}

void transaction_answer_failure(const struct transaction *t, enum phase p)
{
	answer_failed(t->agent, t->seq, phase_names[p], &t->why,
		      t->rank_to_blame ? &t->failed_rank : NULL);
}

void transaction_fail(struct transaction *t, const struct rank_checkpoint *m,
		      const struct gck_error *err,
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
		transaction_answer_failure(t, t->asked);
	t->asked = PHASES;
}

void transaction_abort(struct transaction *t)
{
	t->aborted = true;
	dismiss(t, false);
	transaction_leave_if_empty(t);
}

/* ---- time limits --------------------------------------------------------------------------- */

void transaction_limit(struct transaction *t, double seconds)
{
	t->limit.repeat = seconds;
	ev_timer_again(t->agent->loop, &t->limit);
}

void transaction_bound_hold(struct transaction *t, double seconds)
{
	t->hold.repeat = seconds;
	ev_timer_again(t->agent->loop, &t->hold);
}

void transaction_heard(struct transaction *t)
{
	t->doubted = false;
	if (t->keep_held && transaction_held(t))
		transaction_bound_hold(t, t->timeout_s);
}

/* ---- state --------------------------------------------------------------------------------- */

uint32_t transaction_seq(const struct transaction *t)
{
	return t->aborted || (t->over && !transaction_held(t)) ? 0 : t->seq;
}

bool transaction_held(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (rank_checkpoint_held(&t->ranks[i]))
			return true;
	return false;
}

bool transaction_leaves(const struct transaction *t)
{
	return t->leaves && transaction_held(t);
}

bool transaction_end_held(struct agent *a)
{
	struct transaction *t = a->transaction;
	bool any = false;

	for (size_t i = 0; t && i < t->n; i++) {
		if (!rank_checkpoint_held(&t->ranks[i]))
			continue;
		rank_checkpoint_tell(&t->ranks[i], json_pack("{s:s}", "op", "end"));
		any = true;
	}
	return any;
}

bool transaction_has_rank(struct agent *a, const struct task *task)
{
	const struct rank_checkpoint *m = transaction_rank(a, task);

	return m && (m->asked_mpi || gpu_may_be_drained(m) || rank_checkpoint_may_be_held(m));
}
