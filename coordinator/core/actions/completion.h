/* SPDX-License-Identifier: Apache-2.0
 * Whether a step whose ranks have all ended is finished, so that a requeued job does not run it
 * again. It is only if every rank ended with exit status 0 while Slurm was not taking the job back:
 * what failed is worth another try, and a program that answers SIGTERM by a clean exit has not done
 * its work. */
#ifndef GCK_COMPLETION_H
#define GCK_COMPLETION_H

#include "coordinator/core/model/core.h"

/* Ask Slurm about it, if all ranks have ended so and it has not told yet. */
void gck_finish_check(struct gck_core *core, struct gck_step *step);

/* The same of all steps: Slurm, or this coordinator, may have been away. */
void gck_finish_check_all(struct gck_core *core);

#endif
