/* SPDX-License-Identifier: Apache-2.0
 * How a checkpoint ends without a commit, how held ranks go on, and how a step ends (its actions
 * are in actions.h); and whether an ended step is finished. A finished step is not run again by a
 * requeued job. It is finished only if every rank ended with exit status 0 while Slurm was not
 * ending the job: a failed rank is worth another try, and a program that answers SIGTERM by a clean
 * exit has not done its work. */
#ifndef GCK_ENDING_H
#define GCK_ENDING_H

#include "coordinator/core/model/live.h"

/* The order `abort` for agents. */
json_t *gck_abort_order(const struct gck_step *step);

/* Ask Slurm whether the job ends itself, if all ranks ended with 0 and Slurm has not answered
 * yet. */
void gck_finish_check(struct gck_core *core, struct gck_step *step);

/* The same for all steps, after Slurm or this coordinator was away. */
void gck_finish_check_all(struct gck_core *core);

#endif
