/* SPDX-License-Identifier: Apache-2.0
 * What is to be removed from stores of steps of which commits were forgotten (expire.h). Of object stores
 * gpuckptd removes it itself (sweep.h); directories of a `file:` store are their users' alone: an agent of the
 * user does it, with a commit of any of the user's steps. What nobody has told to be done is ordered again. */
#ifndef GCK_REMOVAL_H
#define GCK_REMOVAL_H

#include "coordinator/core/model/live.h"

/* The record that these commits of a step are forgotten, and that it is to be swept. */
json_t *gck_removal(const struct gck_step *step, json_t *seqs);

/* {"job","step","store","keep","busy","removals"} of a step with something to be removed. */
json_t *gck_sweep_order(const struct gck_step *step);

/* Of those that an agent of the user can do as many as one message takes, but none that another agent was
 * told and may still be at. */
json_t *gck_sweep_orders(struct gck_core *core, uid_t uid);

/* It is done: removals as in the order; what was forgotten since is another matter. */
void gck_swept(struct gck_core *core, uint32_t job, uint32_t step, uint32_t removals);

/* The word of a user's agent: only of that user's steps. */
void gck_swept_message(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body);

#endif
