/* SPDX-License-Identifier: Apache-2.0
 * How a checkpoint ends without a commit, how held ranks go on, and how a step ends: actions of machine.c's
 * table. */
#ifndef GCK_ENDING_H
#define GCK_ENDING_H

#include "coordinator/core/model/live.h"

void gck_act_abort(struct gck_core *core, struct gck_step *step);
void gck_act_release(struct gck_core *core, struct gck_step *step);
void gck_act_recount(struct gck_core *core, struct gck_step *step); /* who is lost has answered */
void gck_act_idle(struct gck_core *core, struct gck_step *step);
void gck_act_terminate(struct gck_core *core, struct gck_step *step);
void gck_act_end_again(struct gck_core *core, struct gck_step *step);
void gck_act_taken(struct gck_core *core, struct gck_step *step);
void gck_act_ended(struct gck_core *core, struct gck_step *step);   /* over, if nobody is here */
void gck_act_alone(struct gck_core *core, struct gck_step *step);   /* over soon, if so */
void gck_act_over(struct gck_core *core, struct gck_step *step);

/* What agents are told by an abort. */
json_t *gck_abort_order(const struct gck_step *step);

#endif
