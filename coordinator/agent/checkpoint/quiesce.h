/* SPDX-License-Identifier: Apache-2.0
 * The phase of a checkpoint in which the ranks' MPI is brought to rest: the ranks of this node are
 * asked together, their rounds are put together and told to the coordinator, and what all ranks of
 * the step said is handed back. Ranks without MPI need nothing. */
#ifndef AGENT_QUIESCE_H
#define AGENT_QUIESCE_H

#include "coordinator/agent/checkpoint/transaction.h"
#include "shim/link.h"

/* The coordinator's `quiesce` and `go`. */
void quiesce_order(struct transaction *t, const json_t *body);
void quiesce_start(struct transaction *t);
void quiesce_go(struct transaction *t, const json_t *body);

/* A sign of life to the ranks that were asked; let them go on. */
void quiesce_hold(struct transaction *t);
void quiesce_resume(struct transaction *t);

void quiesce_clear(struct transaction *t);

/* What MPI threads say: ready for a round, with this rank's words; quiesced (why NULL), or not; the
 * link has ended. */
void quiesce_ready(struct agent *a, struct task *task, const struct gck_link_mpi *head,
		   const void *words);
void quiesce_answered(struct agent *a, struct task *task, uint64_t seq, const struct gck_error *why);
void quiesce_lost(struct agent *a, struct task *task);

/* A rank has ended that the others need. */
void quiesce_ended(const struct member *m);

#endif
