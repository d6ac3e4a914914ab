/* SPDX-License-Identifier: Apache-2.0
 * The agent proper: its event loop, the control packets, and what the ranks are told. */
#include "config.h"

#include "coordinator/agent/base/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/user_message.h"
#include "coordinator/agent/checkpoint/events.h"
#include "coordinator/agent/node/dispatch.h"
#include "coordinator/agent/node/gate.h"
#include "coordinator/agent/node/node_isolation.h"
#include "coordinator/agent/node/thread_messages.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/proxy.h"
#include "coordinator/agent/worker/requeue.h"
#include "coordinator/agent/worker/store_job.h"

#define BYE_MS 300
#define LAST_WORD_S 0.6 /* with BYE_MS less than the supervisor waits for this process */
#define TERM_TO_KILL_S 5.
#define REQUEUE_LIMIT_S 30.
#define REQUEUED_KILL_S 90.  /* Slurm ends a requeued job's tasks itself, after its KillWait */
#define FAILURE_STATUS 1

/* ---- the gate ------------------------------------------------------------------------------ */

static void set_gate(struct agent *a, enum gate gate)
{
	a->gate = gate;
	if (gate != GATE_HOLD)
		ev_timer_stop(a->loop, &a->patience);
	links_answer(a->links);
}

void agent_open(struct agent *a)
{
	a->lasting->released = 1;
	set_gate(a, GATE_OPEN);
}

static void hold(struct agent *a)
{
	set_gate(a, GATE_HOLD);
}

void agent_finished(struct agent *a, json_t *statuses, const char *why)
{
	say_to_user(&a->tasks, "%s", why);
	json_decref(a->statuses);
	a->statuses = json_incref(statuses);
	a->failure = 0;
	set_gate(a, GATE_EXIT);
}

/* The ranks end before main, with a failure. */
static void leave(struct agent *a)
{
	json_decref(a->statuses);
	a->statuses = NULL;
	a->failure = FAILURE_STATUS;
	set_gate(a, GATE_EXIT);
}

void agent_refuse(struct agent *a, const char *why)
{
	say_to_user(&a->tasks, "step %u.%u cannot be started: %s", a->step->job, a->step->step,
		    why);
	leave(a);
}

/* ---- a restart without a coordinator ------------------------------------------------------- */

static void signal_ranks(const struct agent *a, int sig)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (!a->tasks.v[i]->ended)
			kill(a->tasks.v[i]->pid, sig);
	if (sig == SIGKILL && a->restart)
		restart_give_up(a->restart);
}

static void say_unreached(const struct agent *a, const char *what_follows)
{
	const struct step *s = a->step;

	say_to_user(&a->tasks, "the coordinator at %s cannot be reached, so nobody knows whether "
		    "step %u.%u %s: %s", s->conf.host, s->job, s->step, a->gate == GATE_HOLD ?
		    "could be restored on all its nodes" : "has a checkpoint", what_follows);
}

/* On success the ranks wait on for Slurm's signals, so that the script runs no line after srun.
 * Those that were emptied can only be killed. */
static void on_requeued(void *data, const json_t *result, const struct gck_error *why)
{
	struct agent *a = data;
	char text[sizeof why->text + 64];

	if (result) {
		snprintf(text, sizeof text, "job %u is requeued and held; release it when gpuckptd "
			 "runs again", a->step->job);
		say_unreached(a, text);
		ev_timer_set(&a->last_resort, REQUEUED_KILL_S, 0.);
		ev_timer_start(a->loop, &a->last_resort);
		return;
	}
	snprintf(text, sizeof text, "the job could not be given back: %s", why->text);
	say_unreached(a, text);
	if (a->gate == GATE_HOLD)
		signal_ranks(a, SIGKILL);
	else
		leave(a);
}

static void on_patience_over(struct ev_loop *loop, ev_timer *w, int events)
{
	struct agent *a = w->data;
	struct gck_error err;

	(void)events;
	if (!job_start(loop, "requeuehold", requeue_hold, a->step, REQUEUE_LIMIT_S, on_requeued, a,
		       &err))
		on_requeued(a, NULL, &err);
}

void agent_heard(struct agent *a)
{
	ev_timer_stop(a->loop, &a->patience);
}

/* Ranks that only the coordinator's word can let go. */
static bool needs_word(const struct agent *a)
{
	if (a->gate == GATE_HOLD)
		return a->restart && restart_waits(a->restart);
	return a->gate == GATE_WAIT && a->lasting->bound;
}

void agent_unheard(struct agent *a)
{
	if (!needs_word(a) || ev_is_active(&a->patience))
		return;
	ev_timer_set(&a->patience, a->step->options.restart_wait_s, 0.);
	ev_timer_start(a->loop, &a->patience);
}

/* ---- ending ranks -------------------------------------------------------------------------- */

static void on_last_resort(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	signal_ranks(w->data, SIGKILL);
}

void agent_end_ranks(struct agent *a, const char *why, bool at_once)
{
	say_to_user(&a->tasks, "step %u.%u is ended: %s", a->step->job, a->step->step, why);
	signal_ranks(a, at_once ? SIGKILL : SIGTERM);
	ev_timer_set(&a->last_resort, TERM_TO_KILL_S, 0.);
	ev_timer_start(a->loop, &a->last_resort);
}

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
	tasks_close_marks(t);
	if (a->transaction)
		events_task_ended(a->transaction, t);
	if (a->restart)
		restart_task_ended(a->restart, t);
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
	ev_timer_init(&a->patience, on_patience_over, 0., 0.);
	a->patience.data = a;
	ev_timer_init(&a->last_resort, on_last_resort, 0., 0.);
	a->last_resort.data = a;
}

static void on_no_word(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	w->data = NULL;
}

/* The coordinator's word, for which the end of the step is put off a little. */
static void await_word(struct agent *a, bool (*lacks)(const struct agent *a), double limit_s)
{
	ev_timer limit;

	ev_io_stop(a->loop, &a->control_io);
	ev_timer_init(&limit, on_no_word, limit_s, 0.);
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
 * job. A step that it does not know to be finished is run again when the job is restarted. */
static void await_welcome(struct agent *a)
{
	upstream_connect(a->upstream);
	await_word(a, lacks_welcome, LAST_WORD_S);
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->ended)
			send_exit(a, a->tasks.v[i]);
}

static bool lacks_doom(const struct agent *a)
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

/* The ranks died while they were restored. Where this process is gone the job's script goes on, to its end:
 * Slurm has to take the job back before, and then the coordinator says that the restart is over. Not where it
 * is Slurm that ends the step, ranks and all. */
static void await_doom(struct agent *a)
{
	if (!lacks_doom(a) || !all_ended(a))
		return;
	gck_info("all ranks have died in a restart: the step does not end before Slurm has taken the job back");
	await_word(a, lacks_doom, GCK_REQUEUE_WAIT_MS / 1000.);
}

static bool all_succeeded(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->status)
			return false;
	return a->tasks.n > 0 && all_ended(a);
}

/* The step ends here, or the supervisor wants it so. Children die with this process. */
static void finish(struct agent *a)
{
	if (!upstream_welcomed(a->upstream))
		await_welcome(a);
	else
		await_doom(a);
	upstream_bye(a, BYE_MS);
	upstream_stop(a->upstream);
	if (all_succeeded(a))
		store_clear_staged(a->step);
}

/* The gate is known before the coordinator is told where the ranks stand. */
static void start(struct agent *a)
{
	if (!a->lasting->bound && a->gate == GATE_WAIT)
		agent_open(a);
	upstream_connect(a->upstream);
	agent_unheard(a);
	lease_unheard(a->lease);
}

static void ask_upstream(void *arg, json_t *body)
{
	upstream_send(arg, body);
}

static const struct agent_ops ops = { agent_open, hold, agent_end_ranks };

int agent_run(const struct step *s, struct lasting *lasting, int control)
{
	struct agent a = { .ops = &ops, .step = s, .lasting = lasting, .control = control };

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
	a.lease = lease_start(&a);
	if (!a.links || !a.upstream || !a.lease)
		return 1;
	if (lasting->released || lasting->bound || s->options.restart == GCK_RESTART_NEVER)
		start(&a);
	else
		first_look(&a, start);
	ev_run(a.loop, 0);
	finish(&a);
	return 0;
}
