/* SPDX-License-Identifier: Apache-2.0
 * The first phase of a checkpoint: workers are forked and look at their ranks, and the store and
 * the node are checked. Changes nothing. */
#ifndef AGENT_PREPARE_H
#define AGENT_PREPARE_H

#include "coordinator/agent/checkpoint/transaction.h"

void prepare_start(struct transaction *t);

/* All have answered: is the link of an MPI or CUDA thread missing? If so, the phase advances
 * when it comes, or fails. */
bool prepare_waits(struct transaction *t);

/* Fails for a rank that is in MPI_Init. */
void prepare_fail_in_init(struct rank_checkpoint *m);

/* A rank is refused for a reason that passes. The phase fails for it when all others and the check
 * have answered: one of them may have a reason that does not pass. */
void prepare_refuse_for_now(struct rank_checkpoint *m, const struct gck_error *why);
bool prepare_refused(struct transaction *t); /* it has failed for that */

/* The transaction's timer `look`. */
void prepare_on_look(struct ev_loop *loop, ev_timer *w, int events);

#endif
