/* SPDX-License-Identifier: Apache-2.0
 * Three timers of a step: the next checkpoint by interval=, the keepalive while ranks are held,
 * and a line for the user about a restart that takes long. */
#include "coordinator/core/operations/step_timers.h"

#include <stdio.h>

#include "common/base/log.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/operations/operation.h"

#define FIRST_RETRY_S 30u
#define MAX_DOUBLINGS 10u
#define SLOW_MS 10000 /* then the user is told of a restart */
#define SIGNS 4 /* keepalives in the time after which agents release their ranks */

/* ---- the interval --------------------------------------------------------------------------- */

void gck_interval_arm(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	unsigned s = live->options.interval_s;
	unsigned n = live->failures < MAX_DOUBLINGS ? live->failures : MAX_DOUBLINGS;

	if (n > 0 && FIRST_RETRY_S << (n - 1) < s)
		s = FIRST_RETRY_S << (n - 1);
	live->next_ms = s ? core->world->now_ms() + gck_ms(s) : 0;
	core->world->timer(core, step, GCK_TIMER_INTERVAL, gck_ms(s));
}

void gck_interval_due(struct gck_core *core, struct gck_step *step)
{
	struct gck_error err = {0};

	if (!step->live || step->live->phase != GCK_IDLE || step->disabled ||
	    gck_step_ended(step) == step->ntasks) {
		if (step->live)
			gck_interval_arm(core, step);
		return;
	}
	if (gck_operation_begin(core, GCK_CREATE, step->job->id, step->id, "interval", NULL,
				&err)) {
		gck_warn("step %u.%u: no checkpoint by interval: %s", step->job->id, step->id,
			 err.text);
		gck_interval_arm(core, step);
	}
}

/* ---- the keepalive -------------------------------------------------------------------------- */

static bool holds(const struct gck_live *live)
{
	const struct gck_checkpoint *c = &live->checkpoint;

	return live->phase == GCK_RECOVERING ||
	       (gck_phase_holds(live->phase) && (c->held || c->keep_held));
}

/* A running timer is left alone: many short phases must not delay the keepalive. */
void gck_hold_arm(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (live->holding || !holds(live))
		return;
	live->holding = true;
	core->world->timer(core, step, GCK_TIMER_HOLD, live->options.timeout_ms / SIGNS);
}

void gck_hold_due(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (!live)
		return;
	live->holding = false;
	if (!holds(live))
		return;
	gck_hold_send(core, step);
	gck_hold_arm(core, step);
}

/* Once Slurm has requeued the job: the ranks beside its script have ended, which Slurm ends at the
 * same time. Others must not end before, or srun would return to the script. */
static bool script_ends(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].script && live->nodes[i].over)
			return true;
	return false;
}

void gck_hold_send(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	bool leaves = step->job->requeued && live->checkpoint.keep_held;
	bool requeued = leaves && live->phase == GCK_ENDING, all = script_ends(live);

	for (uint32_t i = 0; i < live->nnodes; i++) {
		json_t *body = gck_live_order("hold", step);

		json_object_set_new(body, "requeue", json_boolean(leaves));
		json_object_set_new(body, "requeued",
				    json_boolean(requeued && (all || live->nodes[i].script)));
		gck_live_send(core, &live->nodes[i], body);
	}
}

/* ---- a restart that takes long -------------------------------------------------------------- */

void gck_slow_arm(struct gck_core *core, struct gck_step *step)
{
	core->world->timer(core, step, GCK_TIMER_SLOW, SLOW_MS);
}

/* ", 25 s left"; nothing before the first byte */
static void format_left(char *text, size_t size, uint64_t done, uint64_t all, int64_t ms)
{
	double seconds = done ? (double)ms / 1e3 * (double)(all - done) / (double)done : -1;

	*text = '\0';
	if (seconds >= 120)
		snprintf(text, size, ", %.0f min left", seconds / 60);
	else if (seconds >= 0)
		snprintf(text, size, ", %.0f s left", seconds);
}

/* Told once. While nodes have not told their sizes, it waits for them. */
void gck_slow_due(struct gck_core *core, struct gck_step *step)
{
	const struct gck_live *live = step->live;
	uint64_t done, all;
	char left[40];

	if (!live || live->phase != GCK_BUILDING)
		return;
	gck_live_progress(live, &done, &all);
	if (!all) {
		gck_slow_arm(core, step);
		return;
	}
	done = done < all ? done : all;
	format_left(left, sizeof left, done, all, core->world->now_ms() - live->phase_since_ms);
	gck_live_say(core, step, "step %u.%u: restoring from checkpoint %u: %.0f %% of %.1f MiB%s",
		     step->job->id, step->id, live->plan.seq, (double)done / (double)all * 100,
		     (double)all / (1 << 20), left);
}
