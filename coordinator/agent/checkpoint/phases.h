/* SPDX-License-Identifier: Apache-2.0
 * The phases of a checkpoint on this node: what the workers are told, and what the coordinator is
 * answered when all of them have done it. */
#ifndef AGENT_PHASES_H
#define AGENT_PHASES_H

#include "coordinator/agent/checkpoint/transaction.h"

/* Do what is asked (its limit and its commands to the workers), and answer it as soon as every rank of the node has. */
void phase_start(struct transaction *t, enum phase p);
void phase_settle(struct transaction *t);

/* Stop the ranks, once the GPUs of all of them are drained. */
void phase_freeze(struct transaction *t);

/* Tell workers to write, as many at a time as the node's share allows (share.h). */
void phase_write_more(struct transaction *t);

/* The phase that must have been answered before p can be asked. */
enum phase phase_before(enum phase p);

#endif
