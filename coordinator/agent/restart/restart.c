/* SPDX-License-Identifier: Apache-2.0
 * A restart on this node: the coordinator's commands. */
#include "coordinator/agent/restart/restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/restart/common_restore.h"
#include "coordinator/agent/restart/rank_restart.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/upstream/upstream.h"
#include "storage/store/node_cache.h"

#define LOOK_S 0.02         /* between looks whether all ranks wait in their constructors */
#define START_LIMIT_S 60.   /* for all ranks to reach their constructors */

static void answer_why(struct restart *r, const char *phase)
{
	answer_failed(r->agent, r->seq, phase, &r->why, &r->failed_rank);
}

/* ---- build --------------------------------------------------------------------------------- */

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
	struct restart *r = w->data;
	uint64_t done = 0, all = 0;

	(void)loop;
	(void)events;
	for (size_t i = 0; i < r->n; i++) {
		if (!r->ranks[i].sized)
			return;
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

/* Chunks that ranks share are fetched once for this node. */
static int make_pool(const struct restart *r)
{
	struct gck_error err = { 0 };
	int fd = r->n > 1 ? gck_node_cache_create(&err) : -1;

	if (r->n > 1 && fd < 0)
		gck_warn("each rank fetches shared chunks itself: %s", err.text);
	return fd;
}

static void start_all(struct restart *r)
{
	const struct tasks *tasks = &r->agent->tasks;

	r->ranks = calloc(tasks->n, sizeof *r->ranks);
	if (!r->ranks)
		return;
	r->n = tasks->n;
	r->stage = STAGE_BUILDING;
	r->told_progress = UINT64_MAX;
	r->began = ev_now(r->agent->loop);
	r->agent->ops->hold(r->agent);
	for (size_t i = 0; i < r->n; i++) {
		r->ranks[i].r = r;
		r->ranks[i].task = tasks->v[i];
	}
	r->pool = make_pool(r);
	stages_tell(r, rank_restart_start);
	if (r->pool >= 0)
		close(r->pool); /* the restorers have it */
	r->pool = -1;
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
	restart_fail(r, t, &err);
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

/* Another commit: every restorer throws away what it has built and starts over. */
static void build_again(struct restart *r)
{
	r->stage = STAGE_BUILDING;
	r->told_progress = UINT64_MAX;
	common_restore_forget(r);
	ev_timer_again(r->agent->loop, &r->tick);
	stages_tell(r, rank_restart_build);
}

static void refuse_build(const struct restart *r, uint32_t seq, const char *why)
{
	struct gck_error err = { 0 };

	gck_fail(&err, EBUSY, "node %s: commit %u cannot be built: %s", r->agent->step->node, seq,
		 why);
	gck_warn("%s", err.text);
	answer_failed(r->agent, seq, "build", &err, NULL);
}

static void build(struct restart *r, const json_t *body)
{
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	bool same = seq == r->seq;

	if (!same && r->touched) {
		refuse_build(r, seq, "files were already brought back for another");
		return;
	}
	if (r->stage <= STAGE_STARTING && r->agent->lasting->restored) {
		refuse_build(r, seq, "its ranks were let go by an agent that died before MPI was "
			     "back in them");
		return;
	}
	set_commit(r, seq, packet_text(body, "hash", ""));
	if (r->stage <= STAGE_STARTING)
		build_first(r);
	else if (!same)
		build_again(r);
	else if (r->stage == STAGE_FAILED)
		answer_why(r, "build");
	else if (r->stage >= STAGE_BUILT)
		stages_answer_built(r);
}

/* ---- files, run ---------------------------------------------------------------------------- */

static void files(struct restart *r)
{
	r->files_asked = true;
	if (r->stage == STAGE_BUILT)
		stages_file(r);
	else if (r->stage > STAGE_REOPENING)
		answer_plain(r->agent, r->seq, "files");
}

/* Without `files` before it, only the ranks of this node wait for each other. */
static void run(struct restart *r)
{
	r->run_asked = true;
	if (r->stage == STAGE_BUILT)
		stages_file(r);
	else if (r->stage == STAGE_FILED)
		stages_run(r);
	else if (r->stage == STAGE_DONE)
		answer_plain(r->agent, r->seq, "run");
	restart_advance(r);
}

static void go_on(struct restart *r, const char *op, uint32_t seq)
{
	struct gck_error err = { 0 };

	if (seq != r->seq || r->stage < STAGE_BUILT) {
		gck_fail(&err, EPROTO, "node %s: commit %u is not built here",
			 r->agent->step->node, seq);
		answer_failed(r->agent, seq, op, &err, NULL);
	} else if (r->stage == STAGE_FAILED) {
		answer_why(r, op);
	} else if (!strcmp(op, "files")) {
		files(r);
	} else {
		run(r);
	}
}

/* ---- interface ----------------------------------------------------------------------------- */

/* The same welcome may come again after a lost connection, with another commit. */
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
		r->tick.repeat = step_progress_s(a->step);
		ev_init(&r->rebuild, stages_on_rebuild);
		r->rebuild.data = r;
		r->rebuild.repeat = a->step->options.timeout_ms / 1000.;
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
	if (packet_int(body, "seq", 0) != 0) {
		build(r, body);
		return;
	}
	r->agent->ops->end_ranks(r->agent, why, true);
	r->over = true;
}

void restart_command(struct agent *a, const char *op, const json_t *body)
{
	struct restart *r = a->restart;
	uint32_t seq = (uint32_t)packet_int(body, "seq", 0);
	struct gck_error err = { 0 };

	if (!r) {
		gck_fail(&err, ENOENT, "node %s: no restart is in progress here", a->step->node);
		answer_failed(a, seq, op, &err, NULL);
	} else if (!strcmp(op, "build")) {
		build(r, body);
	} else if (!strcmp(op, "fallback")) {
		fallback(r, body);
	} else {
		go_on(r, op, seq);
	}
}

void restart_moved(struct agent *a, const struct task *t, int code)
{
	struct restart *r = a->restart;

	for (size_t i = 0; r && r->stage == STAGE_BUILDING && i < r->n; i++)
		if (r->ranks[i].task == t && !r->ranks[i].child)
			rank_restart_moved(&r->ranks[i], code);
}

bool restart_building(const struct restart *r, uint32_t *seq)
{
	if (r->stage == STAGE_OFFERED || r->stage == STAGE_DONE)
		return false;
	*seq = r->seq;
	return true;
}

bool restart_waits(const struct restart *r)
{
	return r->stage != STAGE_RUNNING && r->stage != STAGE_DONE && !r->over;
}

void restart_give_up(struct restart *r)
{
	if (!restart_waits(r))
		return;
	if (r->stage != STAGE_FAILED)
		gck_fail(&r->why, ECANCELED, "node %s: the restart was given up",
			 r->agent->step->node);
	r->stage = STAGE_FAILED;
	ev_timer_stop(r->agent->loop, &r->tick);
	ev_timer_stop(r->agent->loop, &r->look);
	ev_timer_stop(r->agent->loop, &r->rebuild);
	for (size_t i = 0; i < r->n; i++)
		rank_restart_end(&r->ranks[i]);
	common_restore_forget(r);
}
