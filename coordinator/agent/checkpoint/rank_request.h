/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint themselves: gck_checkpoint() and gck_checkpoint_all(). A rank says
 * again every second which calls it waits in, so nothing is kept here that must not be lost. A call
 * is done when a commit has it in its image, whoever wanted that checkpoint; the coordinator is asked
 * for one, and says only if there will be none. */
#ifndef AGENT_RANK_REQUEST_H
#define AGENT_RANK_REQUEST_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"

/* A rank's word. */
void asks_take(struct agent *a, struct task *t, const struct gck_link_ask *m);

/* The coordinator's: there will be no checkpoint, or there has been one. */
void asks_answered(struct agent *a, const json_t *body);

/* A checkpoint is committed. t: this node's part in it, NULL if its agent was another; all: the last
 * gck_checkpoint_all() that any rank of the step was in. */
void asks_committed(struct agent *a, const struct transaction *t, uint32_t all);

#endif
