/* SPDX-License-Identifier: Apache-2.0
 * The removal of forgotten commits (expire.h) from stores. gpuckptd itself removes from object
 * stores (sweep.h). Directories of a `file:` store belong to their user: an agent of the user
 * removes them, ordered with a commit of any step of the user. Unacknowledged orders are resent. */
#ifndef GCK_REMOVAL_H
#define GCK_REMOVAL_H

#include "coordinator/core/model/live.h"

/* A new record: these commits of a step are forgotten, and its store must be swept. */
json_t *gck_removal(const struct gck_step *step, json_t *seqs);

/* A new order to sweep a step's store: {"job","step","store","keep","busy","removals"}. */
json_t *gck_sweep_order(const struct gck_step *step);

/* The orders that an agent of the user can carry out, as many as fit in one message. Orders that
 * another agent may still carry out are left out. */
json_t *gck_sweep_orders(struct gck_core *core, uid_t uid);

/* A sweep is done, up to the number of removals in its order. */
void gck_swept(struct gck_core *core, uint32_t job, uint32_t step, uint32_t removals);

/* `swept` of an agent; believed only about steps of the agent's user. */
void gck_swept_message(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body);

#endif
