/* SPDX-License-Identifier: Apache-2.0
 * The phase in which MPI is quiesced. The ranks of this node are asked together. Their words of
 * each round go to the coordinator together, and the words of all ranks of the step come back.
 * Ranks without MPI need nothing. */
#ifndef AGENT_QUIESCE_H
#define AGENT_QUIESCE_H

#include "coordinator/agent/checkpoint/transaction.h"
#include "shim/link.h"

/* The coordinator's `quiesce` and `go`. */
void quiesce_order(struct transaction *t, const json_t *body);
void quiesce_start(struct transaction *t);
void quiesce_go(struct transaction *t, const json_t *body);

/* A sign of life to the ranks that were asked; let them resume. */
void quiesce_hold(struct transaction *t);
void quiesce_resume(struct transaction *t);

void quiesce_clear(struct transaction *t);

/* What MPI threads say: ready for a round, with this rank's words; quiesced (why: NULL), or not;
 * their link has ended. */
void quiesce_ready(struct agent *a, struct task *task, const struct gck_thread_msg *head,
		   const void *words);
void quiesce_answered(struct agent *a, struct task *task, uint64_t seq,
		      const struct gck_error *why);
void quiesce_lost(struct agent *a, struct task *task);

/* A rank has ended that the others need. */
void quiesce_ended(const struct rank_checkpoint *m);

#endif
