/* SPDX-License-Identifier: Apache-2.0
 * The CUDA threads of this node's ranks. GPUs are drained before the ranks are stopped, and given
 * back when they resume. Ranks without CUDA need nothing. */
#ifndef AGENT_GPU_H
#define AGENT_GPU_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

/* Bytes of host memory for the devices' data: all of it if ranks are held for the write, else
 * what finds no free memory on the devices. After `prepare` of all ranks. */
json_int_t gpu_host_needs(const struct transaction *t, bool held);

/* Ranks that need much host memory get it ready now, while their programs run, within so many
 * seconds: its first use takes longer than the copy. True: one is not ready yet; ops->advance is
 * called when one is. */
bool gpu_expect(struct transaction *t, bool held, double seconds);

/* Drain all GPUs within so many seconds. ops->drained is called when a rank is. */
void gpu_drain(struct transaction *t, double seconds);

/* A sign of life to ranks that are drained. */
void gpu_hold(struct transaction *t);

/* Are there copies on devices, which only a running rank can send? */
bool gpu_keeps(const struct transaction *t);

/* Give the ranks their GPUs back. Unless the checkpoint has failed they send their copies on the
 * devices. ops->advance is called when a rank has its GPU. */
void gpu_resume(struct transaction *t);

/* Answers of a CUDA thread. seq: the checkpoint that it means; answers to another are ignored.
 * why: why the drain failed; NULL: it is done. keeps: there are copies on the devices. */
void gpu_drained(struct agent *a, const struct task *task, uint64_t seq, bool keeps,
		  const struct gck_error *why);
void gpu_expected(struct agent *a, const struct task *task, uint64_t seq);
void gpu_resumed(struct agent *a, const struct task *task, uint64_t seq);

/* The thread's link has ended: its program has, or has executed another one. A rank that is
 * drained does not need it. */
void gpu_lost(struct agent *a, const struct task *task);

/* A rank that is not yet ready, not yet drained, or without its GPU yet; NULL: none. */
const struct rank_checkpoint *gpu_awaited(const struct transaction *t);

/* After `prepare` of all ranks: sets each rank's device_copy_max and fits_device. Ranks that share
 * a device, identified by its UUID, share its free memory in proportion to their data there.
 * If memory for this count runs out, nothing fits. */
void gpu_share_memory(struct transaction *t);

#endif
