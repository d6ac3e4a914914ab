/* SPDX-License-Identifier: Apache-2.0
 * How a checkpoint ends without a commit, how held ranks go on, and how a step ends: actions of machine.c's
 * table. */
#ifndef GCK_ENDING_H
#define GCK_ENDING_H

#include "coordinator/core/model/live.h"

/* What agents are told by an abort. */
json_t *gck_abort_order(const struct gck_step *step);

/* Ask Slurm about it, if all ranks have ended so and it has not told yet. */
void gck_finish_check(struct gck_core *core, struct gck_step *step);

/* The same of all steps: Slurm, or this coordinator, may have been away. */
void gck_finish_check_all(struct gck_core *core);

#endif
