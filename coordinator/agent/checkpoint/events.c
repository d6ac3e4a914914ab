/* SPDX-License-Identifier: Apache-2.0
 * What happens to a checkpoint between commands: workers answer, fail and end; ranks end; time
 * passes. */
#include "config.h"

#include "coordinator/agent/checkpoint/events.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/phases.h"
#include "coordinator/agent/checkpoint/prepare.h"
#include "coordinator/agent/checkpoint/quiesce.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/child.h"
#include "shim/process/process.h"

#define TICK_S 0.5          /* between signs of life to workers, and progress reports */
#define ENDING_TICKS 3      /* for Slurm's signals to reach all processes on this node */
#define DOUBT_S 1.          /* between looks whether Slurm has said that the job runs here */
#define STATUS_WAIT_S 1.    /* for the exit status of a rank that is gone */

/* ---- workers and ranks --------------------------------------------------------------------- */

static void on_status_wait(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;
	struct gck_error err = { 0 };

	(void)loop;
	(void)events;
	for (size_t i = 0; i < t->n; i++) {
		if (!t->ranks[i].gone)
			continue;
		if (rank_checkpoint_gone(&t->ranks[i]))
			gck_fail(&err, ESRCH, "its process is gone, and no exit status came");
		else
			gck_fail(&err, EAGAIN, "its CUDA thread went away: try again");
		transaction_fail(t, &t->ranks[i], &err, false);
	}
}

/* A rank that ends by itself before it is held is no failure; the plugin reports its status. */
static bool may_be_carried(const struct rank_checkpoint *m)
{
	return !m->answer[PHASE_FREEZE] && rank_checkpoint_gone(m);
}

/* A rank that ended without MPI_Finalize is a failure: the others would wait for it in their
 * MPI_Init after a restart, and may already wait at the gate. */
static void carry(struct rank_checkpoint *m)
{
	m->gone = false;
	if (m->task->in_mpi || m->asked_mpi) {
		quiesce_ended(m);
		return;
	}
	m->carried = true;
	rank_checkpoint_dismiss(m, true);
	phase_advance(m->t);
}

void events_await_status(struct rank_checkpoint *m)
{
	struct transaction *t = m->t;

	if (m->task->ended || m->task->in_mpi || m->asked_mpi) {
		carry(m);
		return;
	}
	m->gone = true;
	if (ev_is_active(&t->status_wait))
		return;
	ev_timer_set(&t->status_wait, STATUS_WAIT_S, 0.);
	ev_timer_start(t->agent->loop, &t->status_wait);
}

static void rank_failed(struct rank_checkpoint *m, const struct gck_error *err)
{
	if (m->carried || m->gone || m->refused)
		return;
	if (may_be_carried(m))
		events_await_status(m);
	else if (m->t->asked == PHASE_PREPARE && err->code == EAGAIN)
		prepare_refuse_for_now(m, err);
	else
		transaction_fail(m->t, m, err, false);
}

void events_answered(struct rank_checkpoint *m, enum phase p, const json_t *body)
{
	struct transaction *t = m->t;
	struct gck_error err = { 0 };

	if (!packet_bool(body, "ok") && p == PHASE_PREPARE && thread_link_in_init(m->task)) {
		prepare_fail_in_init(m); /* it has begun since, and what it opened is in the way */
		return;
	}
	if (!packet_bool(body, "ok")) {
		gck_fail(&err, (int)packet_int(body, "code", EIO), "%s",
			 packet_text(body, "error", "failed without a reason"));
		rank_failed(m, &err);
		return;
	}
	if (p == PHASE_WRITE)
		phase_write_more(t);
	phase_advance(t);
}

void events_worker_ended(struct rank_checkpoint *m, int status)
{
	struct transaction *t = m->t;
	struct gck_error err = { 0 };
	char text[64];

	/* A worker that has written is done. One that reported a failure was dealt with. */
	if (!m->answer[PHASE_WRITE] && !t->failed && !t->aborted) {
		gck_fail(&err, EIO, "its worker process ended (%s); the rank goes on",
			 child_status_text(status, text, sizeof text));
		rank_failed(m, &err);
	}
	transaction_leave_if_empty(t);
}

void events_task_ended(struct transaction *t, const struct task *task)
{
	struct gck_error err = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		struct rank_checkpoint *m = &t->ranks[i];

		if (m->task != task || m->carried)
			continue;
		if (m->gone || (!m->answer[PHASE_FREEZE] && !t->failed)) {
			carry(m);
		} else if (rank_checkpoint_held(m)) {
			gck_fail(&err, ESRCH, "it ended (status %d) while it was held",
				 task->status);
			transaction_fail(t, m, &err, false);
		}
	}
}

void events_progressed(struct rank_checkpoint *m)
{
	struct transaction *t = m->t;

	if (t->asked == PHASE_WRITE)
		ev_timer_again(t->agent->loop, &t->limit);
}

void events_staged(struct rank_checkpoint *m, const char *why)
{
	struct transaction *t = m->t;

	events_progressed(m);
	t->staged += m->waiting;
	if (*why && !*t->unstaged) {
		snprintf(t->unstaged, sizeof t->unstaged, "%s", why);
		gck_warn("checkpoint %u: node %s writes to the store directly: %s", t->seq,
			 t->agent->step->node, why);
	}
	phase_write_more(t);
}

/* ---- timers -------------------------------------------------------------------------------- */
/* The first rank without an answer, or rather one that gave a reason. */
static const struct rank_checkpoint *find_slow(struct transaction *t)
{
	const struct rank_checkpoint *slow = gpu_awaited(t);

	for (size_t i = 0; !slow && i < t->n && t->asked < PHASES; i++)
		if (t->ranks[i].trouble && !rank_checkpoint_answered(&t->ranks[i], t->asked))
			slow = &t->ranks[i];
	for (size_t i = 0; !slow && i < t->n && t->asked < PHASES; i++)
		if (!rank_checkpoint_answered(&t->ranks[i], t->asked))
			slow = &t->ranks[i];
	return slow;
}

static void on_limit(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;
	const struct rank_checkpoint *slow = find_slow(t);
	struct gck_error err = { 0 };

	(void)loop;
	(void)events;
	if (t->asked == PHASE_WRITE)
		gck_fail(&err, ETIMEDOUT, "the image's write made no progress for %.0f s: %s",
			 w->repeat,
			 slow && slow->trouble ? slow->trouble : "is the store slow?");
	else
		gck_fail(&err, ETIMEDOUT, "no answer within %.1f s", w->repeat);
	transaction_fail(t, slow, &err, true);
}

/* Slurm may have requeued the job, and may have started it elsewhere. */
static bool must_stay_held(struct transaction *t)
{
	bool leaves = transaction_leaves(t);

	if (leaves && !t->doubted)
		t->agent->ops->doubt(t->agent);
	t->doubted |= leaves;
	return t->agent->lasting->cut_off;
}

static void on_hold(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;
	struct gck_error err = { 0 };

	(void)loop;
	(void)events;
	if (must_stay_held(t)) {
		transaction_bound_hold(t, DOUBT_S);
		return;
	}
	if (t->keep_held && transaction_held(t))
		gck_fail(&err, ETIMEDOUT, "the coordinator was away for %.0f s while the ranks "
			 "were held: they were let go", w->repeat);
	else
		gck_fail(&err, ETIMEDOUT, "no order to resume came within %.1f s (hold): the ranks "
			 "were let go", w->repeat);
	transaction_fail(t, find_slow(t), &err, true);
}

static void tell_progress(struct transaction *t)
{
	ev_tstamp now = ev_now(t->agent->loop);
	uint64_t done = 0, all = 0, sent = 0, waiting = 0;

	if (now - t->told_at < step_progress_s(t->agent->step) - TICK_S / 2)
		return;
	for (size_t i = 0; i < t->n; i++) {
		done += t->ranks[i].done;
		all += t->ranks[i].all;
		sent += t->ranks[i].sent;
		waiting += t->ranks[i].waiting;
	}
	if (done + sent == t->told_progress)
		return;
	t->told_progress = done + sent;
	t->told_at = now;
	upstream_send(t->agent, json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I}", "op", "progress",
		      "seq", (json_int_t)t->seq, "phase", "write", "done", (json_int_t)done, "all",
		      (json_int_t)all, "sent", (json_int_t)sent, "staged", (json_int_t)waiting));
}

static bool is_signalled(const struct transaction *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (rank_checkpoint_held(&t->ranks[i]) &&
		    gck_process_pending(t->ranks[i].task->pid, SIGTERM))
			return true;
	return false;
}

/* Slurm ends a job that it has requeued by SIGTERM, which held ranks cannot take, and by SIGKILL
 * after KillWait, for which they need not wait. But srun must not see them end before the job's
 * script has got its SIGTERM: the script would go on. */
static void end_if_requeued(struct transaction *t)
{
	if (!t->leaves || !is_signalled(t))
		return;
	t->ending++;
	if (!t->requeued || t->ending < ENDING_TICKS)
		return;
	gck_info("Slurm ends job %u, which is requeued: its held ranks are ended",
		 t->agent->step->job);
	transaction_end_held(t->agent);
	t->ending = 0;
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
	struct transaction *t = w->data;

	(void)events;
	for (size_t i = 0; i < t->n; i++)
		if (rank_checkpoint_held(&t->ranks[i]))
			child_remind(t->ranks[i].child, json_pack("{s:s}", "op", "hold"));
	quiesce_hold(t);
	gpu_hold(t);
	end_if_requeued(t);
	if (t->asked == PHASE_WRITE)
		tell_progress(t);
	if (!transaction_workers(t))
		ev_timer_stop(loop, w);
}

void events_init_timers(struct transaction *t)
{
	const struct { ev_timer *timer; void (*act)(struct ev_loop *, ev_timer *, int); } all[] = {
		{ &t->limit, on_limit }, { &t->hold, on_hold },
		{ &t->status_wait, on_status_wait },
		{ &t->dismissal, transaction_on_dismissal },
		{ &t->tick, on_tick }, { &t->look, prepare_on_look },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		ev_init(all[i].timer, all[i].act);
		all[i].timer->data = t;
	}
	t->tick.repeat = TICK_S;
}
