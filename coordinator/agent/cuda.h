/* SPDX-License-Identifier: Apache-2.0
 * The CUDA threads of this node's ranks: their GPUs are drained before the ranks are stopped, and
 * brought back when they go on. Ranks without CUDA need nothing. */
#ifndef AGENT_CUDA_H
#define AGENT_CUDA_H

#include "coordinator/agent/phases.h"
#include "coordinator/agent/thread_link.h"

/* A connection whose first packet was a CUDA thread's HELLO: task->cuda, from there on. */
void cuda_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size);

/* Ask all of them what stands in the way: task->cuda->items, once ->looked. */
void cuda_look(struct agent *a);
bool cuda_looked(const struct agent *a);

/* Order it, within so many seconds. phase_freeze comes when all are drained. */
void cuda_drain(struct transaction *t, double seconds);

/* A sign of life to ranks that are drained. */
void cuda_hold(struct transaction *t);

/* Let them have their GPUs again. phase_settle comes when one has it. */
void cuda_resume(struct transaction *t);

/* A rank that is not yet drained, or has its GPU not yet again; NULL: none. */
const struct member *cuda_awaited(const struct transaction *t);

#endif
