/* SPDX-License-Identifier: Apache-2.0
 * Ranks of this node that share a device. When a program finds no free memory there, the other
 * ranks are asked to free their copies for a checkpoint on it (doc/shim-link.md, RECLAIM). */
#ifndef AGENT_RECLAIM_H
#define AGENT_RECLAIM_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

/* A connection whose first packet was a RECLAIM. It is answered when all other ranks have answered,
 * except those that are to be drained and wait for such an answer themselves. */
void reclaim_take(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size);

/* A rank's answer to the RECLAIM of that number. */
void reclaim_answered(struct agent *a, const struct task *t, uint64_t seq, bool freed);

/* It will not answer: its CUDA thread's link has ended, or it waits for such an answer itself. */
void reclaim_lost(struct agent *a, const struct task *t);

#endif
