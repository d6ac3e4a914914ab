/* SPDX-License-Identifier: Apache-2.0
 * Ranks of this node that share a device: a program found no memory there, and the other ranks are asked to give
 * up what they keep on it for a checkpoint (doc/shim-link.md, NEED). */
#ifndef AGENT_RECLAIM_H
#define AGENT_RECLAIM_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

/* A connection whose first packet was a NEED; it is answered there when all other ranks have answered, but for
 * those that are to be drained and wait for such an answer themselves. */
void needs_take(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size);

/* A rank's answer, to the NEED of that number. */
void needs_answered(struct agent *a, const struct task *t, uint64_t seq, bool given);

/* It does not answer: its CUDA thread's link has ended, or it is one of those. */
void needs_lost(struct agent *a, const struct task *t);

#endif
