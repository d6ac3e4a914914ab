/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint of their step: gck_checkpoint(), gck_checkpoint_all(). An agent
 * hears of what is committed anyway, and knows whether its rank's call was in the image; so only
 * what becomes of none is answered. */
#ifndef GCK_RANK_REQUEST_H
#define GCK_RANK_REQUEST_H

#include "coordinator/core/model/live.h"

/* `ask` of an agent. */
void gck_ask(struct gck_core *core, struct gck_step *step, struct gck_node *node,
	     const json_t *body);

#endif
