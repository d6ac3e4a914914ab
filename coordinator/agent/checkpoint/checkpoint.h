/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's orders about checkpoints, as dispatched by the node; and memory that ranks of
 * this node share. */
#ifndef AGENT_CHECKPOINT_H
#define AGENT_CHECKPOINT_H

#include "coordinator/agent/base/agent.h"

/* Obeys prepare, quiesce, go, freeze, resume, write, hold, commit, committed or abort. A command
 * may come twice; its answer is sent again. */
void checkpoint_command(struct agent *a, const char *op, const json_t *body);

/* `commit`: writes the commit object, and answers `done` with its hash. Needs no worker of the
 * checkpoint: an agent that was restarted can do it. */
void commit_write(struct agent *a, uint32_t seq, const json_t *body);

/* `committed`: the agent that wrote the commit removes all others but `keep`. */
void commit_made(struct agent *a, uint32_t seq, const json_t *body);

/* `sweep`: removes expired checkpoints of the user's steps, which only the user may do. */
void commit_sweep(struct agent *a, const json_t *body);

/* `able`: finds the obstacles to a checkpoint on this node in a job, and sends
 * {"op":"able","id","items"}. */
void able_start(struct agent *a, json_int_t id);

/* ---- common_memory.c: within a checkpoint --------------------------------------------------- */

struct transaction;

/* After `prepare` of all ranks: workers allocate memory for their copies. True: this is not done
 * yet, or has failed. Sets t->counted_again and most_copied. */
bool common_memory_reserve(struct transaction *t);

/* After `freeze` of all ranks: workers copy. True: this is not done yet, or has failed. */
bool common_memory_copy(struct transaction *t);

/* An upper limit of how long that takes, in ms. */
uint64_t common_memory_hold_ms(const struct transaction *t);

#endif
