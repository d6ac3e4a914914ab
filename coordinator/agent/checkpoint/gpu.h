/* SPDX-License-Identifier: Apache-2.0
 * The CUDA threads of this node's ranks. GPUs are drained before the ranks are stopped, and resumed
 * with them. Ranks without CUDA need nothing. */
#ifndef AGENT_GPU_H
#define AGENT_GPU_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

/* Bytes of host memory for device data: all of them if ranks are held for the write, else those
 * that do not fit into free device memory. Call after `prepare` of all ranks. */
json_int_t gpu_host_needs(const struct transaction *t, bool held);

/* Ranks prepare while their programs run, within this many seconds: what is queued on their GPUs is
 * waited for, and ranks that need much host memory allocate it, since its first use takes longer
 * than the copy. True: one is not ready yet, and ops->advance is called when one is. */
bool gpu_prepare(struct transaction *t, bool held, double seconds);

/* Drain all GPUs within this many seconds. Calls ops->drained for each rank that is drained. */
void gpu_drain(struct transaction *t, double seconds);

/* Send a sign of life to ranks that are drained. */
void gpu_hold(struct transaction *t);

/* Whether there are device copies, which only a running rank can send. */
bool gpu_has_copies(const struct transaction *t);

/* Resume the ranks' GPUs. Unless the checkpoint has failed, the ranks send their device copies.
 * Calls ops->advance when a rank has its GPU. */
void gpu_resume(struct transaction *t);

/* Answers of a CUDA thread. seq: its checkpoint; answers to another are ignored. why: the reason of
 * a failure; NULL: it succeeded. copies: there are device copies. */
void gpu_drained(struct agent *a, const struct task *task, uint64_t seq, bool copies,
		  const struct gck_error *why);
void gpu_prepared(struct agent *a, const struct task *task, uint64_t seq,
		  const struct gck_error *why);
void gpu_resumed(struct agent *a, const struct task *task, uint64_t seq);

/* The thread's link has ended: its program has ended, which is awaited if it was to drain, or has
 * executed another one. A rank that is drained does not need the link. */
void gpu_lost(struct agent *a, const struct task *task);

/* A rank that is not ready, not drained, or without its GPU yet; NULL: none. */
const struct rank_checkpoint *gpu_awaited(const struct transaction *t);

/* After `prepare` of all ranks: sets each rank's device_copy_max and fits_device. Ranks that share
 * a device, identified by its UUID, share its free memory in proportion to their data there.
 * If memory for this count runs out, nothing fits. */
void gpu_share_memory(struct transaction *t);

#endif
