/* SPDX-License-Identifier: Apache-2.0
 * Agents join their steps, and leave them. */
#ifndef GCK_JOIN_H
#define GCK_JOIN_H

#include "coordinator/core/model/live.h"

/* Take an agent into its step. job: what Slurm says of it, or NULL where it need not. The step, or
 * NULL: with err->code 0 when the agent was told all (`finished`, `refuse`), else the reason. */
struct gck_step *gck_join(struct gck_core *core, struct gck_agent *agent, uid_t uid,
			  const json_t *registration, const json_t *job, struct gck_error *err);

/* The agent's connection ended. */
void gck_join_lost(struct gck_core *core, struct gck_step *step, const struct gck_agent *agent);

/* Slurm says that the job is over, or there is a new incarnation: no agent will come back. */
void gck_join_end(struct gck_core *core, struct gck_step *step);

/* Whether a failure of gck_join is the registration's own. If not, the agent may try again. */
bool gck_join_refuses(int code);

#endif
