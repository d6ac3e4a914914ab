/* SPDX-License-Identifier: Apache-2.0
 * The agent's event loop: how it starts and ends, and the control packets. */
#include "config.h"

#include "coordinator/agent/base/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/checkpoint/events.h"
#include "coordinator/agent/node/incarnation.h"
#include "coordinator/agent/node/node.h"
#include "coordinator/agent/node/node_isolation.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/proxy.h"
#include "coordinator/agent/worker/scontrol.h"
#include "coordinator/agent/worker/store_job.h"

#define BYE_MS 300
#define LAST_WORD_S 0.6 /* with BYE_MS less than the supervisor waits for this process */

/* ---- the control socket -------------------------------------------------------------------- */

static void task_named(struct agent *a, const struct task *t)
{
	upstream_send(a, json_pack("{s:s, s:[{s:I, s:i}]}", "op", "tasks", "ranks", "rank",
				   (json_int_t)t->rank, "pid", (int)t->pid));
	links_task_named(a->links);
}

static void send_exit(struct agent *a, const struct task *t)
{
	upstream_send(a, json_pack("{s:s, s:I, s:i}", "op", "exit", "rank", (json_int_t)t->rank,
				   "status", t->status));
}

static void task_ended(struct agent *a, struct task *t)
{
	send_exit(a, t);
	tasks_close_tracker(t);
	if (a->transaction)
		events_task_ended(a->transaction, t);
	if (a->restart)
		restart_task_ended(a->restart, t);
	if (incarnation_is_over(a))
		upstream_register(a->upstream); /* the newest start waits for this */
}

static void on_control(struct ev_loop *loop, ev_io *io, int events)
{
	struct agent *a = io->data;
	struct gck_control m;
	int rc;

	(void)events;
	while ((rc = control_take(a->control, &m)) > 0) {
		struct task *t = tasks_apply(&a->tasks, &m);

		if (m.type == GCK_CONTROL_END) {
			ev_break(loop, EVBREAK_ALL);
			return;
		}
		if (t && m.type == GCK_CONTROL_TASK)
			task_named(a, t);
		else if (t)
			task_ended(a, t);
	}
	if (rc < 0)
		ev_break(loop, EVBREAK_ALL);
}

/* ---- start and end ------------------------------------------------------------------------- */

static void watch_control(struct agent *a)
{
	fcntl(a->control, F_SETFL, O_NONBLOCK);
	fcntl(GCK_AGENT_LISTEN_FD, F_SETFL, O_NONBLOCK);
	ev_io_init(&a->control_io, on_control, a->control, EV_READ);
	a->control_io.data = a;
	ev_io_start(a->loop, &a->control_io);
	gate_init_timers(a);
}

static void on_word_limit(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	w->data = NULL;
}

/* Delays the end of the step until the coordinator has spoken, for limit_s at most. */
static void await_word(struct agent *a, bool (*lacks)(const struct agent *a), double limit_s)
{
	ev_timer limit;

	ev_io_stop(a->loop, &a->control_io);
	ev_timer_init(&limit, on_word_limit, limit_s, 0.);
	limit.data = a;
	ev_timer_start(a->loop, &limit);
	while (limit.data && lacks(a))
		ev_run(a->loop, EVRUN_ONCE);
	ev_timer_stop(a->loop, &limit);
}

static bool lacks_welcome(const struct agent *a)
{
	return !upstream_welcomed(a->upstream);
}

/* A step may end before the coordinator has heard of it, or while it still asks Slurm about the
 * job. If it does not learn that the step has finished, the step runs again when the job is
 * restarted. */
static void await_welcome(struct agent *a)
{
	upstream_connect(a->upstream);
	await_word(a, lacks_welcome, a->lasting->late ? GCK_REQUEUE_WAIT_MS / 1000. : LAST_WORD_S);
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->ended)
			send_exit(a, a->tasks.v[i]);
}

static bool awaits_requeue(const struct agent *a)
{
	return upstream_welcomed(a->upstream) && a->restart && restart_waits(a->restart);
}

static bool all_ended(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (!a->tasks.v[i]->ended)
			return false;
	return true;
}

/* The ranks died while they were restored. When this process ends the job's script goes on, so
 * Slurm must requeue the job before: the coordinator says when the restart is over. Not needed
 * where Slurm itself ends the step. */
static void await_requeue(struct agent *a)
{
	if (!awaits_requeue(a) || !all_ended(a))
		return;
	gck_info("all ranks have died in a restart: the step does not end before Slurm has "
		 "requeued the job");
	await_word(a, awaits_requeue, GCK_REQUEUE_WAIT_MS / 1000.);
}

static bool all_succeeded(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->status)
			return false;
	return a->tasks.n > 0 && all_ended(a);
}

/* The step has ended, or the supervisor wants this process to end. Children die with it. */
static void finish(struct agent *a)
{
	if (!upstream_welcomed(a->upstream))
		await_welcome(a);
	await_requeue(a);
	upstream_bye(a, BYE_MS);
	upstream_stop(a->upstream);
	if (all_succeeded(a))
		store_clear_staged(a->step);
}

/* The gate is known before the coordinator is told about the ranks. */
static void start(struct agent *a)
{
	if (!a->lasting->bound && a->gate == GATE_WAIT)
		gate_open(a);
	upstream_connect(a->upstream);
	gate_unheard(a);
	isolation_unheard(a->isolation);
}

static void ask_upstream(void *arg, json_t *body)
{
	upstream_send(arg, body);
}

int event_loop_run(const struct step *s, struct lasting *lasting, int control)
{
	struct agent a = { .ops = &gate_ops, .step = s, .lasting = lasting, .control = control };

	prctl(PR_SET_NAME, "gpuckpt-agent");
	signal(SIGTERM, SIG_IGN); /* the supervisor takes it */
	a.loop = ev_default_loop(EVFLAG_AUTO);
	if (!a.loop)
		return 1;
	watch_control(&a);
	a.gate = lasting->released ? GATE_OPEN : GATE_WAIT;
	proxy_start(a.loop, s, ask_upstream, &a);
	a.links = links_start(&a, &thread_messages);
	a.upstream = upstream_start(&a, &dispatch);
	a.isolation = isolation_start(&a);
	if (!a.links || !a.upstream || !a.isolation)
		return 1;
	if (lasting->released || lasting->bound || s->options.restart == GCK_RESTART_NEVER)
		start(&a);
	else
		gate_check_first_start(&a, start);
	ev_run(a.loop, 0);
	finish(&a);
	return 0;
}
