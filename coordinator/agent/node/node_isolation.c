/* SPDX-License-Identifier: Apache-2.0
 * A node that is cut off from gpuckptd and slurmctld. */
#include "config.h"

#include "coordinator/agent/node/node_isolation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/boot_clock.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/node/incarnation.h"
#include "coordinator/agent/ranks/lease.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/child.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/scontrol.h"
#include "coordinator/agent/worker/worker.h"

#define TICK_MS 1000       /* between attempts to stop ranks */
#define ASK_EVERY_MS 5000  /* between questions until Slurm says yes; at most SlurmdTimeout / 3 */
#define ASK_LEAST_S 5.     /* for Slurm's answer, even if the watch ends meanwhile */
#define ASK_STOPPED_S 30.

struct isolation {
	struct agent *agent;
	struct job *asking;    /* Slurm is being asked; NULL: it is not */
	int64_t asked_ms;      /* 0: not since the coordinator was heard, or Slurm said yes */
	bool refused;          /* it was logged that Slurm has requeued the job */
	bool blind;            /* the user was told that Slurm cannot be asked here */
	bool seeing;           /* it could be asked before */
	struct gck_error why;  /* Slurm's last answer, unless it was yes */
	ev_timer timer;
	ev_timer pulse;        /* renews the ranks' leases; finds that this node stood still */
};

static int64_t third_ms(const struct isolation *l)
{
	return l->agent->lasting->slurmd_timeout_s * INT64_C(1000) / 3;
}

static int64_t end_ms(const struct isolation *l)
{
	return l->agent->lasting->unheard_ms + 2 * third_ms(l);
}

static int64_t ask_every_ms(const struct isolation *l)
{
	return third_ms(l) < ASK_EVERY_MS ? third_ms(l) : ASK_EVERY_MS;
}

static int64_t pulse_ms(const struct isolation *l)
{
	return third_ms(l) / 2 < ASK_EVERY_MS ? third_ms(l) / 2 : ASK_EVERY_MS;
}

/* Until the time that isolates the node has passed, by now. That may be late, since Slurm's answer
 * has its time: as long as this agent runs it stops the ranks itself. */
static void lease(struct isolation *l)
{
	const struct lasting *lasting = l->agent->lasting;
	int64_t now = gck_boot_ms(), least = now + 2 * pulse_ms(l);
	int64_t end = lasting->unheard_ms ? end_ms(l) : now + 2 * third_ms(l);

	lease_renew(l->agent, !third_ms(l) ? 0 : end > least ? end : least);
}

/* Slurm's answer says nothing if this node stood still meanwhile. */
static int64_t answer_lasts_ms(const struct isolation *l)
{
	int64_t least = (int64_t)(ASK_STOPPED_S * 1000);

	return 2 * third_ms(l) > least ? 2 * third_ms(l) : least;
}

static void wait_until(struct isolation *l, int64_t at_ms)
{
	int64_t left = at_ms - gck_boot_ms();

	ev_timer_stop(l->agent->loop, &l->timer);
	ev_timer_set(&l->timer, left > 0 ? (double)left / 1000 : 0., 0.);
	ev_timer_start(l->agent->loop, &l->timer);
}

/* Asks in the second half of the first third, spread by pid: all agents of a cluster may have
 * lost the coordinator at once. */
static void await_question(struct isolation *l)
{
	int64_t half = third_ms(l) / 2;

	wait_until(l, l->agent->lasting->unheard_ms + half + half * (getpid() % 256) / 256);
}

/* ---- the ranks ----------------------------------------------------------------------------- */

static void not_held(struct task *t, const char *why)
{
	if (!t->told_not_held)
		gck_warn("rank %u is not stopped yet, trying again: %s", t->rank,
			 why);
	t->told_not_held = true;
}

static void on_message(void *data, const json_t *body)
{
	not_held(data, packet_text(body, "error", "no reason given"));
}

static void on_end(void *data, int status)
{
	struct task *t = data;

	(void)status;
	t->tracer = NULL;
}

static const struct child_ops ops = { rank_tracer_main, on_message, on_end };

static void hold(struct agent *a, struct task *t)
{
	struct worker_task work = { .pid = task_number(t) };
	struct gck_error err;

	if (t->ended || t->tracer || !t->link || t->link->waiting || transaction_has_rank(a, t))
		return;
	work.hello = t->link->hello;
	t->tracer = child_start(a->loop, &ops, &work, task_beside(t), NULL, 0, t,
				&err);
	if (!t->tracer)
		not_held(t, err.text);
}

/* Repeated, since a rank may be traced by a debugger, or by a checkpoint, which ends soon
 * without the coordinator. */
static void hold_all(struct agent *a)
{
	for (size_t i = 0; a->gate == GATE_OPEN && i < a->tasks.n; i++)
		hold(a, a->tasks.v[i]);
}

static void let_go(struct isolation *l, bool suspended)
{
	struct agent *a = l->agent;

	for (size_t i = 0; i < a->tasks.n; i++) {
		if (a->tasks.v[i]->tracer)
			child_kill(a->tasks.v[i]->tracer);
		a->tasks.v[i]->told_not_held = false;
	}
	a->lasting->cut_off = 0;
	lease_end_stand(a, suspended);
	lease(l);
	say_to_user(&a->tasks,
		    "slurmctld says that job %u still runs here: the ranks of step %u.%u on %s go "
		    "on",
		    a->step->job, a->step->job, a->step->step, a->step->node);
}

/* The ranks are stopped first: the line to the user may wait for a file system. */
static void stop(struct isolation *l)
{
	struct agent *a = l->agent;
	const struct step *s = a->step;

	a->lasting->cut_off = 1;
	l->refused = false;
	lease_look(a);
	hold_all(a);
	wait_until(l, gck_boot_ms() + TICK_MS);
	say_to_user(&a->tasks,
		    "node %s seems to be cut off: for %lld s gpuckptd was not reached, nor did "
		    "slurmctld "
		    "say that job %u still runs here (%s). Slurm may have started the job "
		    "elsewhere: the "
		    "ranks of step %u.%u here are stopped until slurmctld says so", s->node,
		    (long long)(gck_boot_ms() - a->lasting->unheard_ms) / 1000, s->job,
		    *l->why.text ? l->why.text : "no answer", s->job, s->step);
}

/* ---- questions to Slurm -------------------------------------------------------------------- */

/* For job.h, of a struct agent: true, or false if the job is suspended here. */
static json_t *ask_slurm(const void *arg, struct gck_error *err)
{
	const struct agent *a = arg;
	int suspended = scontrol_runs(a->step->job, a->lasting->restarts, err);

	return suspended < 0 ? NULL : json_boolean(!suspended);
}

/* The job ran when the question was asked; the answer may have taken long. */
static void renew(struct isolation *l, bool suspended)
{
	struct lasting *lasting = l->agent->lasting;

	if (lasting->cut_off)
		let_go(l, suspended);
	lasting->unheard_ms = upstream_welcomed(l->agent->upstream) ? 0 : l->asked_ms;
	l->asked_ms = 0;
	if (lasting->unheard_ms)
		await_question(l);
	else
		ev_timer_stop(l->agent->loop, &l->timer);
}

static void tell_blind(struct isolation *l, const char *why)
{
	struct agent *a = l->agent;

	if (!l->blind)
		say_to_user(&a->tasks,
			    "%s: node %s cannot tell whether it is cut off, and the ranks of job "
			    "%u run on",
			    why, a->step->node, a->step->job);
	l->blind = true;
}

static void tell_refused(struct isolation *l, const char *why)
{
	if (!l->refused)
		gck_warn("job %u: %s; its ranks here stay stopped until slurmd ends them",
			 l->agent->step->job, why);
	l->refused = true;
}

static void on_asked(void *data, const json_t *result, const struct gck_error *why)
{
	struct isolation *l = data;
	bool stopped = l->agent->lasting->cut_off;

	l->asking = NULL;
	l->seeing |= result || why->code != ENOENT;
	if (result) {
		if (gck_boot_ms() < l->asked_ms + answer_lasts_ms(l))
			renew(l, json_is_false(result));
		return;
	}
	l->why = *why;
	if (why->code == ECANCELED) {
		incarnation_end(l->agent, why->text);
	} else if (why->code == ENOENT && !l->seeing) {
		tell_blind(l, why->text);
		renew(l, false);
	} else if (stopped) {
		if (why->code == ESTALE)
			tell_refused(l, why->text);
	} else {
		int64_t next = gck_boot_ms() + ask_every_ms(l);

		wait_until(l, next < end_ms(l) ? next : end_ms(l));
	}
}

/* The ranks are stopped at the end even if no answer has come; but the first question has its time,
 * since the loss of the connection may be found late. */
static void await_end(struct isolation *l, bool first)
{
	int64_t least = gck_boot_ms() + (int64_t)(first ? ASK_LEAST_S * 1000 : 0);

	wait_until(l, end_ms(l) > least ? end_ms(l) : least);
}

static void ask(struct isolation *l)
{
	struct agent *a = l->agent;
	double left = (double)(end_ms(l) - gck_boot_ms()) / 1000;
	struct gck_error err;

	if (!a->lasting->cut_off)
		await_end(l, !l->asked_ms);
	l->asked_ms = gck_boot_ms();
	l->asking = job_start(a->loop, "asking slurmctld", ask_slurm, a, a->lasting->cut_off ?
			      ASK_STOPPED_S :
			      left > ASK_LEAST_S ? left : ASK_LEAST_S, on_asked, l, &err);
	if (!l->asking)
		on_asked(l, NULL, &err);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct isolation *l = w->data;

	(void)loop;
	(void)events;
	if (l->agent->lasting->cut_off) {
		hold_all(l->agent);
		wait_until(l, gck_boot_ms() + TICK_MS);
		if (gck_boot_ms() < l->asked_ms + ask_every_ms(l))
			return;
	} else if (l->asked_ms && gck_boot_ms() >= end_ms(l)) {
		stop(l);
		return;
	}
	if (!l->asking)
		ask(l);
}

/* ---- a node that stood still ---------------------------------------------------------------- */

/* After the time that isolates a node its connection says nothing: what comes over it now, or does
 * not come yet, was sent before Slurm gave up the node. */
static void take_pulse(struct isolation *l)
{
	struct lasting *lasting = l->agent->lasting;
	int64_t still = lasting->awake_ms ? gck_boot_ms() - lasting->awake_ms : 0;

	lasting->awake_ms = third_ms(l) ? gck_boot_ms() : 0;
	if (lasting->cut_off)
		return;
	if (!third_ms(l) || !lasting->lease_ms || lasting->awake_ms < lasting->lease_ms) {
		lease(l);
		return;
	}
	gck_warn("node %s stood still for %lld s", l->agent->step->node, (long long)still / 1000);
	if (!lasting->unheard_ms)
		lasting->unheard_ms = lasting->awake_ms - still;
	stop(l);
}

static void on_pulse(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	take_pulse(w->data);
}

/* Of a node on which the agent before this one was awake last, too. */
static void feel_pulse(struct isolation *l)
{
	l->pulse.repeat = (double)pulse_ms(l) / 1000;
	if (pulse_ms(l) && ev_is_active(&l->pulse))
		return;
	ev_timer_again(l->agent->loop, &l->pulse); /* stops it if it is not to repeat */
	take_pulse(l);
}

/* ---- interface ----------------------------------------------------------------------------- */

struct isolation *isolation_start(struct agent *a)
{
	struct isolation *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->agent = a;
	ev_init(&l->timer, on_timer);
	l->timer.data = l;
	ev_init(&l->pulse, on_pulse);
	l->pulse.data = l;
	feel_pulse(l);
	return l;
}

void isolation_term(struct isolation *l, json_int_t slurmd_timeout_s)
{
	bool run = !strcmp(l->agent->step->conf.cut_off, "run");

	l->agent->lasting->slurmd_timeout_s = run || slurmd_timeout_s < 0 ||
		slurmd_timeout_s > UINT16_MAX ?
		0 : (uint32_t)slurmd_timeout_s;
	feel_pulse(l);
}

/* Stopped ranks wait for Slurm: gpuckptd may not know yet that the job was requeued. */
void isolation_heard(struct isolation *l)
{
	if (l->agent->lasting->cut_off)
		return;
	l->agent->lasting->unheard_ms = 0;
	l->asked_ms = 0;
	ev_timer_stop(l->agent->loop, &l->timer);
	if (l->asking)
		job_cancel(l->asking);
	l->asking = NULL;
}

/* A restarted agent goes on where the last one was. */
void isolation_unheard(struct isolation *l)
{
	struct lasting *lasting = l->agent->lasting;

	if (!lasting->slurmd_timeout_s || l->asking || ev_is_active(&l->timer))
		return;
	if (!lasting->unheard_ms)
		lasting->unheard_ms = gck_boot_ms() - UPSTREAM_SILENCE_S * 1000;
	take_pulse(l);
	if (lasting->cut_off)
		wait_until(l, gck_boot_ms());
	else
		await_question(l);
}

void isolation_doubt(struct isolation *l)
{
	struct lasting *lasting = l->agent->lasting;

	if (lasting->cut_off)
		return;
	if (!lasting->unheard_ms)
		lasting->unheard_ms = gck_boot_ms() - UPSTREAM_SILENCE_S * 1000;
	stop(l);
}
