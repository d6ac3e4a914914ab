/* SPDX-License-Identifier: Apache-2.0
 * Agents join and leave their steps. */
#ifndef GCK_JOIN_H
#define GCK_JOIN_H

#include "coordinator/core/model/live.h"

/* Take an agent into its step. job: Slurm's description of the job, or NULL if it is not needed.
 * Returns the step, or NULL: with err->code 0 if the agent was answered (`finished`, `refuse`),
 * else the reason. */
struct gck_step *gck_join(struct gck_core *core, struct gck_agent *agent, uid_t uid,
			  const json_t *registration, const json_t *job, struct gck_error *err);

/* The agent's connection ended. */
void gck_join_lost(struct gck_core *core, struct gck_step *step, const struct gck_agent *agent);

/* End the step's live part: the job is over, or a new incarnation begins. No agent will come
 * back. */
void gck_join_end(struct gck_core *core, struct gck_step *step);

/* Is the registration at fault, by the code of gck_join's error? If not, the agent may try
 * again. */
bool gck_join_refuses(int code);

#endif
