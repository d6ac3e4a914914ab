/* SPDX-License-Identifier: Apache-2.0
 * The gate: what ranks are told that wait in their constructors, by the coordinator or without
 * it; how ranks are ended; and whether this is a first start, for which the store is looked at
 * too, since the environment's count of restarts may be lost. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/node/node.h"
#include "coordinator/agent/node/node_isolation.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/scontrol.h"
#include "coordinator/agent/worker/store_job.h"

#define LOOK_LIMIT_S 4. /* a store that hangs must not keep a job from starting */
#define TERM_TO_KILL_S 5.
#define STOP_TO_KILL_S 2. /* for agents on other nodes to do the same */
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

void gate_open(struct agent *a)
{
	a->lasting->released = 1;
	set_gate(a, GATE_OPEN);
}

static void gate_hold(struct agent *a)
{
	set_gate(a, GATE_HOLD);
}

void gate_finished(struct agent *a, json_t *statuses, const char *why)
{
	say_to_user(&a->tasks, "%s", why);
	json_decref(a->statuses);
	a->statuses = json_incref(statuses);
	a->failure = 0;
	set_gate(a, GATE_EXIT);
}

/* The ranks exit before main, with a failure. */
static void leave(struct agent *a)
{
	json_decref(a->statuses);
	a->statuses = NULL;
	a->failure = FAILURE_STATUS;
	set_gate(a, GATE_EXIT);
}

void gate_refuse(struct agent *a, const char *why)
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

static void say_unreached(struct agent *a, const char *what_follows)
{
	const struct step *s = a->step;

	say_to_user(&a->tasks, "the coordinator at %s cannot be reached to tell whether "
		    "step %u.%u %s: %s", s->conf.host, s->job, s->step, a->gate == GATE_HOLD ?
		    "could be restored on all its nodes" : "has a checkpoint", what_follows);
}

/* After a requeue the ranks wait for Slurm's signals, so that the script runs no line after
 * srun. Ranks that were emptied can only be killed. */
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
	snprintf(text, sizeof text, "the job could not be requeued: %s", why->text);
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

void gate_heard(struct agent *a)
{
	ev_timer_stop(a->loop, &a->patience);
}

/* Do ranks wait that only the coordinator can let go? */
static bool needs_word(const struct agent *a)
{
	if (a->gate == GATE_HOLD)
		return a->restart && restart_waits(a->restart);
	return a->gate == GATE_WAIT && a->lasting->bound;
}

void gate_unheard(struct agent *a)
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

/* Between their stop and their end ranks lend the user's standard error. */
static void say_end(struct agent *a, const char *why)
{
	say_to_user(&a->tasks, "step %u.%u is ended: %s", a->step->job, a->step->step, why);
}

static void kill_ranks_in(struct agent *a, double seconds)
{
	ev_timer_set(&a->last_resort, seconds, 0.);
	ev_timer_start(a->loop, &a->last_resort);
}

void gate_end_ranks(struct agent *a, const char *why, bool at_once)
{
	if (at_once)
		signal_ranks(a, SIGSTOP);
	say_end(a, why);
	if (!transaction_end_held(a))
		signal_ranks(a, at_once ? SIGKILL : SIGTERM);
	kill_ranks_in(a, TERM_TO_KILL_S);
}

void gate_stop_and_end_ranks(struct agent *a, const char *why)
{
	signal_ranks(a, SIGSTOP);
	say_end(a, why);
	kill_ranks_in(a, STOP_TO_KILL_S);
}

static void doubt(struct agent *a)
{
	isolation_doubt(a->isolation);
}

const struct agent_ops gate_ops = { gate_open, gate_hold, gate_end_ranks, doubt };

void gate_init_timers(struct agent *a)
{
	ev_timer_init(&a->patience, on_patience_over, 0., 0.);
	a->patience.data = a;
	ev_timer_init(&a->last_resort, on_last_resort, 0., 0.);
	a->last_resort.data = a;
}

/* ---- a first start ------------------------------------------------------------------------- */

struct look {
	struct agent *agent;
	void (*decided)(struct agent *a);
};

static void on_looked(void *data, const json_t *result, const struct gck_error *why)
{
	struct look *look = data;
	struct agent *a = look->agent;
	void (*decided)(struct agent *) = look->decided;

	free(look);
	a->lasting->bound = json_is_true(result);
	if (json_is_true(result))
		gck_warn("step %u.%u has a commit in its store, but the count of restarts in its "
			 "environment is 0: the coordinator is asked whether it goes on from there",
			 a->step->job, a->step->step);
	else if (!result)
		gck_warn("step %u.%u is taken for a first start, which the store could not confirm:"
			 " %s", a->step->job, a->step->step, why->text);
	decided(a);
}

void gate_check_first_start(struct agent *a, void (*decided)(struct agent *))
{
	const struct store_request r = { .step = a->step };
	struct look *look = malloc(sizeof *look);
	struct gck_error err = { 0 };

	if (!look) {
		decided(a);
		return;
	}
	*look = (struct look){ a, decided };
	if (!job_start(a->loop, "looking for commits", store_used, &r, LOOK_LIMIT_S, on_looked,
		       look, &err))
		on_looked(look, NULL, &err);
}
