/* SPDX-License-Identifier: Apache-2.0
 * Remnants: nodes on which ranks of a job's former start may still run, because Slurm gave up the
 * node without ending them. The newest start's ranks are not let go before each of them has
 * confirmed its end, or is certainly isolated (coordinator/agent/node/node_isolation.h). If that
 * start began before the journal was in doubt (gck_state.doubt), there may be remnants that the
 * coordinator does not know: one without a name stands for them, which nobody confirms. */
#ifndef GCK_REMNANT_H
#define GCK_REMNANT_H

#include "coordinator/core/model/core.h"

/* Add what former starts leave behind to the record of a job's new start. former: the job at its
 * former start; NULL: the journal does not have it. The record's submit is when Slurm queued the
 * job again: until then Slurm may have told a node that the job runs there. */
void gck_remnants_note(const struct gck_core *core, const struct gck_job *former, json_t *record);

/* This node's ranks of a former start have ended. Returns whether it was a remnant. */
bool gck_remnants_confirm(struct gck_core *core, const struct gck_job *job, json_int_t step,
			  json_int_t node);

/* The time for which the job's newest start must still wait; 0: it need not. */
int64_t gck_remnants_left_ms(const struct gck_core *core, const struct gck_job *job);

/* What it waits for, for the user, with the time that is left: a new string. */
json_t *gck_remnants_text(const struct gck_job *job, int64_t left_ms);

#endif
