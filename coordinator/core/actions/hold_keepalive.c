/* SPDX-License-Identifier: Apache-2.0
 * Telling agents that their ranks are still held on purpose. */
#include "coordinator/core/actions/hold_keepalive.h"

#include "coordinator/core/model/live.h"

#define SIGNS 4 /* in the time after which agents let go */

static bool holds(const struct gck_live *live)
{
	const struct gck_checkpoint *c = &live->checkpoint;

	return live->phase == GCK_RECOVERING ||
	       (gck_phase_holds(live->phase) && (c->held || c->keep_held));
}

/* A timer that runs is left alone: many short phases are to be no longer than one. */
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
	gck_live_send_all(core, step, json_pack("{s:s, s:I}", "op", "hold", "seq",
						(json_int_t)live->checkpoint.seq));
	gck_hold_arm(core, step);
}
