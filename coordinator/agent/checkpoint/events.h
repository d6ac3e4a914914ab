/* SPDX-License-Identifier: Apache-2.0
 * What happens to a checkpoint between commands: workers answer, fail and end; ranks end; time
 * passes. */
#ifndef AGENT_EVENTS_H
#define AGENT_EVENTS_H

#include "coordinator/agent/checkpoint/transaction.h"

/* As in struct transaction_ops. */
void events_answered(struct rank_checkpoint *m, enum phase p, const json_t *body);
void events_progressed(struct rank_checkpoint *m);
void events_staged(struct rank_checkpoint *m, const char *why);
void events_worker_ended(struct rank_checkpoint *m, int status);
void events_await_status(struct rank_checkpoint *m);

/* The plugin has reported the end of a task. */
void events_task_ended(struct transaction *t, const struct task *task);

/* Initialize the transaction's timers; none runs yet. */
void events_init_timers(struct transaction *t);

#endif
