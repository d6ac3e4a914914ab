/* SPDX-License-Identifier: Apache-2.0
 * The quiesce of MPI before ranks are frozen. It goes in rounds: in each round all ranks wait for
 * each other and exchange messages ("words", doc/protocol.md), which the coordinator does not
 * interpret. */
#ifndef GCK_QUIESCE_H
#define GCK_QUIESCE_H

#include "coordinator/core/model/live.h"

/* Take a node's answer to `prepare`. */
void gck_quiesce_note(struct gck_node *node, const json_t *data);

/* `ready`: the node's ranks wait for a round; the body has their words, or a piece of them. */
void gck_quiesce_ready(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body);

/* Go on with the round if no node is waited for any more. For when a node has left the quiesce. */
void gck_quiesce_check(struct gck_core *core, struct gck_step *step);

#endif
