/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint of their step: gck_checkpoint(), gck_checkpoint_all(). Only
 * failures are answered: an agent is told of every commit anyway, and knows whether the image
 * contains its rank's call. */
#ifndef GCK_RANK_REQUEST_H
#define GCK_RANK_REQUEST_H

#include "coordinator/core/model/live.h"

/* Take `ask` of an agent. */
void gck_ask(struct gck_core *core, struct gck_step *step, struct gck_node *node,
	     const json_t *body);

#endif
