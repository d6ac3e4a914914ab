/* SPDX-License-Identifier: Apache-2.0
 * What stands in the way of a checkpoint, asked of every agent of a job or step. */
#ifndef GCK_OBSTACLES_H
#define GCK_OBSTACLES_H

#include "coordinator/core/model/live.h"
#include "coordinator/daemon/peer/peer.h"

/* Ask; the peer gets its "end" when all have answered, or some did not in time. */
void gck_able_ask(struct gck_peer *peer, struct gck_job *job, uint32_t step);

/* An agent's answer. */
void gck_able_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body);

#endif
