/* SPDX-License-Identifier: Apache-2.0
 * The real world for the core: connections, timers, journal, clock, Slurm. */
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/encoding.h"
#include "common/base/log.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/model/record.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/step_timers.h"
#include "coordinator/daemon/peer/peer.h"

static void world_send(struct gck_agent *agent, const json_t *body)
{
	gck_peer_send(agent->peer, body);
}

/* Not at once: the agent may be the one that is joining. */
static void world_drop(struct gck_agent *agent)
{
	agent->step = NULL;
	gck_peer_drop(agent->peer);
}

/* ---- journal ------------------------------------------------------------------------------- */

static bool is_dropped(const struct gck_core *core, const struct gck_job *job)
{
	if (!job->gone)
		return false;
	for (const struct gck_step *step = job->steps; step; step = step->next)
		if (step->live || step->commits || step->intent.import || gck_step_unswept(step))
			return false;
	for (size_t i = 0; i < core->count; i++)
		if (core->queue[(core->head + i) % GCK_EVENT_QUEUE].step->job == job)
			return false;
	return true;
}

static int world_rewrite(struct gck_core *core, struct gck_error *err)
{
	json_t *records = gck_state_dump(&core->state);
	int rc = records ? gck_journal_rewrite(gck_daemon_of(core)->journal, records, err) :
		 gck_fail(err, ENOMEM, "no memory to rewrite the journal");

	json_decref(records);
	return rc;
}

int gck_daemon_compact(struct gck_daemon *d, struct gck_error *err)
{
	for (struct gck_job *job = d->core.state.jobs, *next; job; job = next) {
		next = job->next;
		if (is_dropped(&d->core, job))
			gck_state_drop_job(&d->core.state, job);
	}
	return world_rewrite(&d->core, err);
}

static int world_journal(struct gck_core *core, const json_t *record, bool sync,
			 struct gck_error *err)
{
	return gck_journal_append(gck_daemon_of(core)->journal, record, sync, err);
}

/* ---- timers -------------------------------------------------------------------------------- */

struct step_timer {
	ev_timer timer;
	struct gck_core *core;
	struct gck_step *step;
	enum gck_timer which;
};

static void stop_timer(struct gck_core *core, struct step_timer *t)
{
	t->step->timers[t->which] = NULL;
	ev_timer_stop(gck_daemon_of(core)->loop, &t->timer);
	free(t);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct step_timer *t = (struct step_timer *)w;
	struct gck_core *core = t->core;
	struct gck_step *step = t->step;
	enum gck_timer which = t->which;

	(void)loop;
	(void)events;
	stop_timer(core, t);
	if (which == GCK_TIMER_PHASE)
		gck_answer_timeout(core, step);
	else if (which == GCK_TIMER_INTERVAL)
		gck_interval_due(core, step);
	else if (which == GCK_TIMER_AGAIN)
		gck_operation_again(core, step);
	else if (which == GCK_TIMER_SLOW)
		gck_slow_due(core, step);
	else
		gck_hold_due(core, step);
}

static void world_timer(struct gck_core *core, struct gck_step *step, enum gck_timer which,
			unsigned ms)
{
	struct step_timer *t = step->timers[which];

	if (t)
		stop_timer(core, t);
	if (!ms)
		return;
	t = calloc(1, sizeof *t);
	if (!t) {
		gck_error_log("no memory for a timer of step %u.%u", step->job->id, step->id);
		return;
	}
	t->core = core;
	t->step = step;
	t->which = which;
	step->timers[which] = t;
	ev_timer_init(&t->timer, on_timer, ms / 1e3, 0.);
	ev_timer_start(gck_daemon_of(core)->loop, &t->timer);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void world_slurm(struct gck_core *core, json_t *request, gck_slurm_fn *done, void *arg)
{
	gck_slurm_ask(&gck_daemon_of(core)->slurm, request, done, arg);
}

static int64_t world_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void world_nonce(char out[GCK_NONCE_TEXT])
{
	unsigned char raw[(GCK_NONCE_TEXT - 1) / 2];

	if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
		abort(); /* impossible for so few bytes */
	gck_hex(raw, sizeof raw, out);
}

static int world_wrap(struct gck_core *core, const struct gck_job *job, char out[GCK_WRAPPED_MAX],
		      struct gck_error *err)
{
	struct gck_wrapping *w = &gck_daemon_of(core)->wrapping;

	gck_wrapping_renew(w);
	return gck_wrapping_wrap(w, job, out, err);
}

static int world_can_wrap(struct gck_core *core, struct gck_error *err)
{
	return gck_wrapping_able(&gck_daemon_of(core)->wrapping, err);
}

const struct gck_world gck_real_world = {
	.send = world_send,
	.drop = world_drop,
	.journal = world_journal,
	.rewrite = world_rewrite,
	.timer = world_timer,
	.slurm = world_slurm,
	.now_ms = world_now_ms,
	.nonce = world_nonce,
	.wrap = world_wrap,
	.can_wrap = world_can_wrap,
};
