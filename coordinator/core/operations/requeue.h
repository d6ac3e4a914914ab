/* SPDX-License-Identifier: Apache-2.0
 * What a requeue does beyond a checkpoint of every step. All ranks are held while Slurm is asked;
 * if Slurm refuses, they go on. */
#ifndef GCK_REQUEUE_H
#define GCK_REQUEUE_H

#include "coordinator/core/model/live.h"

/* Continue a requeue as far as its members allow. May free the operation. */
void gck_requeue_check(struct gck_operation *op);

bool gck_requeue_may_be(const struct gck_core *core, const struct gck_job *job);

/* Ranks are held for a commit that no operation decides about, or for a checkpoint whose abort
 * waits. They go on, unless Slurm has requeued the job. */
void gck_requeue_recovered(struct gck_core *core, struct gck_step *step);

/* Journal that Slurm is about to be asked to requeue the job, or that it has not done so. */
void gck_requeue_note(struct gck_core *core, uint32_t job, bool value);

#endif
