/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on this node: one worker per rank, told together and answered for together. The
 * coordinator's commands may come twice; an answer that was given is given again. Whatever fails
 * lets all ranks go, and is the answer to every later command of the checkpoint. */
#ifndef AGENT_TRANSACTION_H
#define AGENT_TRANSACTION_H

#include "coordinator/agent/base/agent.h"

/* A command of the coordinator's: prepare, freeze, resume, write, commit, committed, abort. */
void transaction_command(struct agent *a, const char *op, const json_t *body);

void transaction_task_ended(struct transaction *t, struct task *task);

/* The coordinator lives, and knows what is held: ranks are not held for long without its word. */
void transaction_heard(struct transaction *t);

/* For `register`: the sequence number whose end was not heard, or whose ranks are still held (0:
 * none), and whether they are. */
uint32_t transaction_seq(const struct transaction *t);
bool transaction_held(const struct transaction *t);

/* Is a rank held for a checkpoint, or on its way there or back? */
bool transaction_has_rank(struct agent *a, const struct task *task);

#endif
