/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint themselves: gck_checkpoint() and gck_checkpoint_all(). A rank
 * repeats every second which calls it waits in, so no state is lost. A call is done when a commit
 * has it in its image, whatever that checkpoint was for. The coordinator is asked for a
 * checkpoint, and answers only if there will be none. */
#ifndef AGENT_RANK_REQUEST_H
#define AGENT_RANK_REQUEST_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"

/* A rank's request. */
void rank_request_take(struct agent *a, struct task *t, const struct gck_link_ask *m);

/* The coordinator's answer: there will be no checkpoint, or there has been one. */
void rank_request_answered(struct agent *a, const json_t *body);

/* A checkpoint is committed. t: this node's part in it; NULL: it was another agent's. all: the
 * last gck_checkpoint_all() of any rank of the step. */
void rank_request_committed(struct agent *a, const struct transaction *t, uint32_t all);

#endif
