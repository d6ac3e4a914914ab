/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint: whether it can be taken, and its record. Its actions are in actions.h. */
#ifndef GCK_CHECKPOINT_H
#define GCK_CHECKPOINT_H

#include "coordinator/core/model/live.h"

/* Is every node here, and something left to take a checkpoint of? */
int gck_checkpoint_ready(const struct gck_step *step, struct gck_error *err);

/* The commit object is written: journal that it counts. Nobody is told before. */
int gck_checkpoint_journal(struct gck_core *core, struct gck_step *step, struct gck_error *err);

#endif
