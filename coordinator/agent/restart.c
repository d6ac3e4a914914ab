/* SPDX-License-Identifier: Apache-2.0
 * A restart on this node. */
#include "coordinator/agent/restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/agent/answer.h"
#include "coordinator/agent/child.h"
#include "coordinator/agent/links.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/upstream.h"
#include "coordinator/agent/worker.h"

#define LOOK_S 0.02         /* between looks whether all ranks wait in their constructors */
#define START_LIMIT_S 60.   /* for them to come that far */
#define TICK_S 0.5

enum stage {
	STAGE_OFFERED,  /* the commit is known */
	STAGE_STARTING, /* told to build; ranks are on their way to their constructors */
	STAGE_BUILDING,
	STAGE_BUILT,
	STAGE_FAILED,   /* a rank could not be built; a fallback may come */
	STAGE_RUNNING,  /* told to let go */
	STAGE_DONE,
};

struct returning {              /* a rank */
	struct restart *r;
	struct task *task;
	struct child *child;
	struct worker_task work;
	bool built, ran;
	json_int_t exit;        /* wait status of a rank that had finished; -1: it had not */
	uint64_t done, all;
};

struct restart {
	struct agent *agent;
	enum stage stage;
	uint32_t seq;
	char hash[sizeof ((struct worker_task *)0)->hash];
	uint32_t from_job, from_step;
	struct returning *ranks;
	size_t n;
	struct gck_error why;   /* STAGE_FAILED */
	uint32_t failed_rank;
	uint64_t told_progress;
	ev_tstamp began;
	ev_timer look, tick;
};

static void fail(struct restart *r, const struct task *t, const struct gck_error *err)
{
	if (r->stage == STAGE_FAILED)
		return;
	r->why = *err;
	r->failed_rank = t->rank;
	gck_fail_in(&r->why, "rank %u on %s", r->failed_rank, r->agent->step->node);
	gck_warn("restart from commit %u: %s", r->seq, r->why.text);
	answer_failed(r->agent, r->seq, r->stage == STAGE_RUNNING ? "run" : "build", &r->why,
		      &r->failed_rank);
	r->stage = STAGE_FAILED;
	ev_timer_stop(r->agent->loop, &r->tick);
	ev_timer_stop(r->agent->loop, &r->look);
}

/* ---- what restorers say -------------------------------------------------------------------- */

static bool all_built(const struct restart *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->ranks[i].built)
			return false;
	return true;
}

static bool all_ran(const struct restart *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->ranks[i].ran)
			return false;
	return true;
}

static void answer_built(struct restart *r)
{
	json_t *exited = json_array();

	for (size_t i = 0; i < r->n; i++)
		if (r->ranks[i].exit >= 0)
			json_array_append_new(exited, json_pack("{s:I, s:I}", "rank",
				(json_int_t)r->ranks[i].task->rank, "status", r->ranks[i].exit));
	json_decref(answer_done(r->agent, r->seq, "build", json_pack("{s:o, s:f}", "exited", exited,
				"seconds", ev_now(r->agent->loop) - r->began)));
}

/* Only from here on is the step one that runs: what comes later is answered with GO. */
static void answer_ran(struct restart *r)
{
	r->stage = STAGE_DONE;
	agent_open(r->agent);
	answer_plain(r->agent, r->seq, "run");
}

static void settle(struct restart *r)
{
	if (r->stage == STAGE_BUILDING && all_built(r)) {
		r->stage = STAGE_BUILT;
		ev_timer_stop(r->agent->loop, &r->tick);
		answer_built(r);
	} else if (r->stage == STAGE_RUNNING && all_ran(r)) {
		answer_ran(r);
	}
}

static void take_done(struct returning *one, const json_t *body)
{
	struct gck_error err = { 0 };

	if (!packet_bool(body, "ok")) {
		gck_fail(&err, (int)packet_int(body, "code", EIO), "%s",
			 packet_text(body, "error", "failed without a reason"));
		fail(one->r, one->task, &err);
	} else if (!strcmp(packet_text(body, "phase", ""), "build")) {
		one->built = packet_int(body, "seq", 0) == one->r->seq;
		one->exit = packet_int(body, "exit", -1);
	} else {
		one->ran = true;
	}
	settle(one->r);
}

static void on_message(void *data, const json_t *body)
{
	struct returning *one = data;

	if (!strcmp(packet_text(body, "op", ""), "progress")) {
		one->done = (uint64_t)packet_int(body, "done", 0);
		one->all = (uint64_t)packet_int(body, "all", 0);
	} else {
		take_done(one, body);
	}
}

/* A rank that was emptied dies with its restorer. */
static void on_end(void *data, int status)
{
	struct returning *one = data;
	struct gck_error err = { 0 };
	char text[64];

	one->child = NULL;
	link_return(one->task, false);
	if (one->ran)
		return;
	gck_fail(&err, EIO, "its restorer ended (%s), and the rank with it",
		 child_status_text(status, text, sizeof text));
	fail(one->r, one->task, &err);
}

static const struct child_ops ops = { restorer_main, on_message, on_end };

void restart_task_ended(struct restart *r, struct task *t)
{
	struct gck_error err = { 0 };

	gck_fail(&err, ESRCH, "it ended (status %d) before it was restored", t->status);
	if (r->stage == STAGE_STARTING)
		fail(r, t, &err);
	for (size_t i = 0; i < r->n; i++)
		if (r->ranks[i].task == t && !r->ranks[i].ran)
			fail(r, t, &err);
}

/* ---- build --------------------------------------------------------------------------------- */

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
	struct restart *r = w->data;
	uint64_t done = 0, all = 0;

	(void)loop;
	(void)events;
	for (size_t i = 0; i < r->n; i++) {
		done += r->ranks[i].done;
		all += r->ranks[i].all;
	}
	if (done == r->told_progress)
		return;
	r->told_progress = done;
	upstream_send(r->agent, json_pack("{s:s, s:I, s:s, s:I, s:I}", "op", "progress", "seq",
		      (json_int_t)r->seq, "phase", "build", "done", (json_int_t)done, "all",
		      (json_int_t)all));
}

static void start_one(struct restart *r, struct returning *one)
{
	struct gck_error err = { 0 };

	one->work = (struct worker_task){
		.step = r->agent->step, .rank = one->task->rank, .pid = one->task->pid,
		.link = -1, .seq = r->seq, .from_job = r->from_job, .from_step = r->from_step,
	};
	memcpy(one->work.hash, r->hash, sizeof r->hash);
	one->exit = -1;
	one->child = child_start(r->agent->loop, &ops, &one->work, -1, one, &err);
	if (!one->child)
		fail(r, one->task, &err);
}

static void start_all(struct restart *r)
{
	const struct tasks *tasks = &r->agent->tasks;

	r->ranks = calloc(tasks->n, sizeof *r->ranks);
	if (!r->ranks)
		return;
	r->n = tasks->n;
	r->stage = STAGE_BUILDING;
	r->began = ev_now(r->agent->loop);
	agent_hold(r->agent);
	for (size_t i = 0; i < r->n; i++) {
		r->ranks[i].r = r;
		r->ranks[i].task = tasks->v[i];
	}
	for (size_t i = 0; i < r->n; i++)
		start_one(r, &r->ranks[i]);
	ev_timer_again(r->agent->loop, &r->tick);
}

static const struct task *not_there(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (!a->tasks.v[i]->link)
			return a->tasks.v[i];
	return NULL;
}

static void fail_start(struct restart *r)
{
	const struct task *t = not_there(r->agent);
	struct gck_error err = { 0 };

	gck_fail(&err, ETIMEDOUT, "pid %d did not reach the preload's constructor within %.0f s",
		 (int)t->pid, START_LIMIT_S);
	fail(r, t, &err);
}

static void on_look(struct ev_loop *loop, ev_timer *w, int events)
{
	struct restart *r = w->data;
	const struct agent *a = r->agent;

	(void)events;
	if (a->tasks.n >= a->step->local_ntasks && !not_there(a)) {
		ev_timer_stop(loop, w);
		start_all(r);
	} else if (a->tasks.n && not_there(a) && ev_now(loop) - r->began > START_LIMIT_S) {
		fail_start(r);
	}
}

static void set_commit(struct restart *r, uint32_t seq, const char *hash)
{
	if (seq != r->seq || *hash)
		snprintf(r->hash, sizeof r->hash, "%s", hash);
	r->seq = seq;
}

static void build_first(struct restart *r)
{
	r->stage = STAGE_STARTING;
	r->began = ev_now(r->agent->loop);
	ev_timer_again(r->agent->loop, &r->look);
}

/* Another commit: every restorer throws away what it has and starts over in the same process. */
static void build_again(struct restart *r)
{
	r->stage = STAGE_BUILDING;
	r->told_progress = 0;
	ev_timer_again(r->agent->loop, &r->tick);
	for (size_t i = 0; i < r->n; i++) {
		struct returning *one = &r->ranks[i];
		struct gck_error err = { 0 };

		one->built = false;
		one->done = one->all = 0;
		if (one->child) {
			child_tell(one->child, json_pack("{s:s, s:I, s:s}", "op", "build", "seq",
				   (json_int_t)r->seq, "hash", r->hash));
			continue;
		}
		gck_fail(&err, ESRCH, "its restorer is gone, and the rank with it");
		fail(r, one->task, &err);
	}
}

static void build(struct restart *r, const json_t *body)
{
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	bool same = seq == r->seq;

	set_commit(r, seq, packet_text(body, "hash", ""));
	if (r->stage == STAGE_OFFERED || r->stage == STAGE_STARTING)
		build_first(r);
	else if (r->stage >= STAGE_RUNNING)
		gck_warn("told to build commit %u, but the ranks were let go", seq);
	else if (!same)
		build_again(r);
	else if (r->stage == STAGE_BUILT)
		answer_built(r);
	else if (r->stage == STAGE_FAILED)
		answer_failed(r->agent, seq, "build", &r->why, &r->failed_rank);
}

/* ---- run ----------------------------------------------------------------------------------- */

static void run_one(struct returning *one)
{
	if (one->exit >= 0) {
		if (one->task->link)
			link_dismiss(one->task->link, exit_code((int)one->exit));
		one->ran = true;
	}
	child_tell(one->child, json_pack("{s:s}", "op", "run"));
}

static void run(struct restart *r, const json_t *body)
{
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	struct gck_error err = { 0 };

	if (r->stage == STAGE_BUILT && seq == r->seq) {
		r->stage = STAGE_RUNNING;
		for (size_t i = 0; i < r->n; i++)
			run_one(&r->ranks[i]);
		settle(r);
	} else if (r->stage == STAGE_DONE && seq == r->seq) {
		answer_plain(r->agent, seq, "run");
	} else if (r->stage != STAGE_RUNNING) {
		gck_fail(&err, EPROTO, "node %s: commit %u is not built here",
			 r->agent->step->node, seq);
		answer_failed(r->agent, seq, "run", &err, NULL);
	}
}

/* ---- from outside -------------------------------------------------------------------------- */

/* The same welcome may come again after a lost connection; which commit counts may have changed. */
int restart_offered(struct agent *a, const json_t *welcome)
{
	const json_t *from = json_object_get(welcome, "restart_from");
	struct restart *r = a->restart ? a->restart : calloc(1, sizeof *r);

	if (!r)
		return -1;
	if (!a->restart) {
		r->agent = a;
		ev_init(&r->look, on_look);
		r->look.data = r;
		r->look.repeat = LOOK_S;
		ev_init(&r->tick, on_tick);
		r->tick.data = r;
		r->tick.repeat = TICK_S;
		a->restart = r;
	}
	if (r->stage > STAGE_OFFERED)
		return 0;
	r->from_job = (uint32_t)packet_int(from, "job", a->step->job);
	r->from_step = (uint32_t)packet_int(from, "step", a->step->step);
	set_commit(r, (uint32_t)packet_int(welcome, "seq", 0), packet_text(welcome, "hash", ""));
	return 0;
}

static void fallback(struct restart *r, const json_t *body)
{
	const char *why = packet_text(body, "why", "no reason given");

	gck_warn("commit %u is given up: %s", r->seq, why);
	if (packet_int(body, "seq", 0) == 0)
		agent_end_ranks(r->agent, why, true);
	else
		build(r, body);
}

void restart_command(struct agent *a, const char *op, const json_t *body)
{
	struct restart *r = a->restart;
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	struct gck_error err = { 0 };

	if (!r) {
		gck_fail(&err, ENOENT, "node %s: no restart is under way here", a->step->node);
		answer_failed(a, seq, op, &err, NULL);
	} else if (!strcmp(op, "build")) {
		build(r, body);
	} else if (!strcmp(op, "run")) {
		run(r, body);
	} else {
		fallback(r, body);
	}
}

bool restart_building(const struct restart *r, uint32_t *seq)
{
	if (r->stage == STAGE_OFFERED || r->stage == STAGE_DONE)
		return false;
	*seq = r->seq;
	return true;
}
