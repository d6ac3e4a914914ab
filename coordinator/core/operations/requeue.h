/* SPDX-License-Identifier: Apache-2.0
 * What a requeue does beyond a checkpoint of every step. All ranks are held while Slurm is asked;
 * if Slurm refuses, they go on. */
#ifndef GCK_REQUEUE_H
#define GCK_REQUEUE_H

#include "coordinator/core/model/live.h"

/* Continue a requeue as far as its members allow. May free the operation. */
void gck_requeue_check(struct gck_operation *op);

/* After a restart of the coordinator: ranks are held for a commit. They go on, unless Slurm has
 * requeued the job. */
void gck_requeue_recovered(struct gck_core *core, struct gck_step *step);

#endif
