/* SPDX-License-Identifier: Apache-2.0
 * What is done in each phase of a checkpoint: actions of machine.c's table. */
#ifndef GCK_CHECKPOINT_H
#define GCK_CHECKPOINT_H

#include "coordinator/core/model/live.h"

void gck_act_call(struct gck_core *core, struct gck_step *step);
void gck_act_called(struct gck_core *core, struct gck_step *step); /* are all here? */
void gck_act_prepare(struct gck_core *core, struct gck_step *step);
void gck_act_freeze(struct gck_core *core, struct gck_step *step);
void gck_act_resume(struct gck_core *core, struct gck_step *step);
void gck_act_write(struct gck_core *core, struct gck_step *step);
void gck_act_commit(struct gck_core *core, struct gck_step *step);
void gck_act_committed(struct gck_core *core, struct gck_step *step);
void gck_act_adopt(struct gck_core *core, struct gck_step *step);
void gck_act_repeat(struct gck_core *core, struct gck_step *step);  /* to who has not answered */

/* Is every node here, and something left to take a checkpoint of? */
int gck_checkpoint_ready(const struct gck_step *step, struct gck_error *err);

/* The commit object is written: journal that it counts. Nobody is told before. */
int gck_checkpoint_journal(struct gck_core *core, struct gck_step *step, struct gck_error *err);

#endif
