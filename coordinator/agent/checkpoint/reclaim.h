/* SPDX-License-Identifier: Apache-2.0
 * Processes of this node's ranks that share a device. When a program finds no free memory there,
 * the others are asked to free their copies for a checkpoint on it (doc/shim-link.md, RECLAIM). */
#ifndef AGENT_RECLAIM_H
#define AGENT_RECLAIM_H

#include "coordinator/agent/ranks/thread_link.h"

/* A connection whose first packet was a RECLAIM. It is answered when all others have answered,
 * except those that are to be drained and wait for such an answer themselves. */
void reclaim_take(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size);

/* The answer of a process to the RECLAIM with its message's number. */
void reclaim_answered(const struct thread_link *l, bool freed);

/* The process will not answer: its CUDA thread's link has ended, or it waits for such an answer
 * itself. */
void reclaim_lost(struct agent *a, pid_t pid);

#endif
