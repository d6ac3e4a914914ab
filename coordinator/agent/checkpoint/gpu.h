/* SPDX-License-Identifier: Apache-2.0
 * The CUDA threads of this node's ranks: their GPUs are drained before the ranks are stopped, and
 * brought back when they go on. Ranks without CUDA need nothing. */
#ifndef AGENT_GPU_H
#define AGENT_GPU_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

/* Host memory that what the devices have takes: all of it while ranks are held for the write, else what
 * the devices have no room for (rooms.h); in bytes. After `prepare` of all ranks. */
json_int_t cuda_host_needs(const struct transaction *t, bool held);

/* Ranks that need much host memory for it get it ready now, while their programs run, within so many seconds:
 * its first use takes longer than the copy. True: one is not ready yet; ops->settle comes when one is. */
bool cuda_expect(struct transaction *t, bool held, double seconds);

/* Order it, within so many seconds. ops->drained comes when all are. */
void cuda_drain(struct transaction *t, double seconds);

/* A sign of life to ranks that are drained. */
void cuda_hold(struct transaction *t);

/* Have devices kept something that only a rank that runs can bring? */
bool cuda_keeps(const struct transaction *t);

/* Let them have their GPUs again; unless the checkpoint has failed they are to bring what the devices have
 * kept. ops->settle comes when one has it. */
void cuda_resume(struct transaction *t);

/* A CUDA thread's answers. seq: the checkpoint that it means; another's are passed over. Of a drain: why, NULL if it
 * is done; keeps: the rank has left data on its GPU. */
void cuda_drained(struct agent *a, const struct task *task, uint64_t seq, bool keeps,
		  const struct gck_error *why);
void cuda_expected(struct agent *a, const struct task *task, uint64_t seq);
void cuda_resumed(struct agent *a, const struct task *task, uint64_t seq);

/* The thread's link has ended: its program has, or executed another. A rank whose image is taken does not need it. */
void cuda_lost(struct agent *a, const struct task *task);

/* A rank that is not yet ready, or drained, or has its GPU not yet again; NULL: none. */
const struct member *cuda_awaited(const struct transaction *t);

/* After `prepare` of all ranks: each member's keep_most and finds_room. Without memory to count nothing finds
 * room. */
void rooms_share(struct transaction *t);

#endif
