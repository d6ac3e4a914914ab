/* SPDX-License-Identifier: Apache-2.0
 * A requeued job whose step is another one than before must not end as if all were well: jobs that
 * depend on it would start. It is requeued again and held, with the reason. */
#ifndef GCK_REFUSAL_H
#define GCK_REFUSAL_H

#include "coordinator/core/model/live.h"

/* A node of a new start has registered, and the step may not start: verdict is the welcome that
 * says why. True: Slurm is asked to hold the job; the agent was told, and is to ask again. False:
 * it is to get the verdict: the job need not be held, or Slurm has answered. */
bool gck_refusal_holds(struct gck_core *core, struct gck_step *former, struct gck_agent *agent,
		       const json_t *verdict);

#endif
