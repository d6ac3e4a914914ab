/* SPDX-License-Identifier: Apache-2.0
 * Bringing the MPI of a step's ranks to rest before they are frozen: rounds, in each of which all
 * ranks wait for each other and learn each other's words (doc/protocol.md). What the words mean is
 * the ranks' business. */
#ifndef GCK_QUIESCE_H
#define GCK_QUIESCE_H

#include "coordinator/core/model/live.h"

/* Has the step ranks with MPI, as its nodes answered to `prepare`? */
bool gck_quiesce_needed(const struct gck_live *live);

/* A node's answer to `prepare`. */
void gck_quiesce_note(struct gck_node *node, const json_t *data);

/* `ready`: the node's ranks wait for a round, and these are (a piece of) their words. */
void gck_quiesce_ready(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body);

/* A node that takes part no more may have been the last one waited for. */
void gck_quiesce_check(struct gck_core *core, struct gck_step *step);

#endif
