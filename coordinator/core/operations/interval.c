/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints by interval. */
#include "coordinator/core/operations/interval.h"

#include "common/base/log.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/operations/operation.h"

#define FIRST_RETRY_S 30u
#define MAX_DOUBLINGS 10u

void gck_interval_arm(struct gck_core *core, struct gck_step *step)
{
	const struct gck_live *live = step->live;
	unsigned s = live->options.interval_s;
	unsigned n = live->failures < MAX_DOUBLINGS ? live->failures : MAX_DOUBLINGS;

	if (n > 0 && FIRST_RETRY_S << (n - 1) < s)
		s = FIRST_RETRY_S << (n - 1);
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
