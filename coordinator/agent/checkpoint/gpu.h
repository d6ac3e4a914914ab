/* SPDX-License-Identifier: Apache-2.0
 * The CUDA threads of this node's ranks: one in each process that uses CUDA. GPUs are drained
 * before the ranks are stopped, and resumed with them. Ranks without CUDA need nothing. */
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

/* Drain all GPUs within this many seconds. Calls ops->drained for each process that is drained. */
void gpu_drain(struct transaction *t, double seconds);

/* Send a sign of life to ranks that are drained. */
void gpu_hold(struct transaction *t);

/* Whether there are device copies, which only a running rank can send. */
bool gpu_has_copies(const struct transaction *t);

/* Resume the ranks' GPUs. Unless the checkpoint has failed, the ranks send their device copies.
 * Calls ops->advance when a rank has its GPU. */
void gpu_resume(struct transaction *t);

/* Does a process of the rank, by its pid for a worker, have a link? */
bool gpu_is_linked(const struct rank_checkpoint *m, pid_t number);

/* Has the link's process the order to drain, and has not answered? */
bool gpu_drains(const struct thread_link *l);

/* Is a process of the rank drained, or being drained or resumed? */
bool gpu_may_be_drained(const struct rank_checkpoint *m);

/* The PIDs of a rank's processes that send device copies to its worker. */
json_t *gpu_senders(const struct rank_checkpoint *m);

/* Answers of a CUDA thread, whose message has the number of its checkpoint: answers to another are
 * ignored. why: the reason of a failure; NULL: it succeeded. copies: there are device copies. */
void gpu_drained(const struct thread_link *l, bool copies, const struct gck_error *why);
void gpu_prepared(const struct thread_link *l, const struct gck_error *why);
void gpu_resumed(const struct thread_link *l);

/* The link of a thread has ended: its program has ended, which is awaited if it is the rank and was
 * to drain, or has executed another one. A process that is drained does not need the link. */
void gpu_lost(const struct thread_link *l);

/* A rank with a process that is not ready, not drained, or without its GPU yet; NULL: none. */
const struct rank_checkpoint *gpu_awaited(const struct transaction *t);

#endif
