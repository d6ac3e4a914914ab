/* SPDX-License-Identifier: Apache-2.0
 * The phases of a checkpoint on this node: orders to the workers, and the answer to the coordinator
 * once all workers have done them. */
#ifndef AGENT_PHASES_H
#define AGENT_PHASES_H

#include "coordinator/agent/checkpoint/transaction.h"

/* Starts a phase: its limit and its commands to the workers. phase_advance answers it as soon as
 * every rank of the node is done. */
void phase_start(struct transaction *t, enum phase p);
void phase_advance(struct transaction *t);

/* Stops the ranks, once the GPUs of all of them are drained. */
void phase_freeze(struct transaction *t);

/* Tells workers to write, as many at a time as the node's share allows (resources.h). */
void phase_write_more(struct transaction *t);

/* The phase that must be answered before p can be asked. */
enum phase phase_before(enum phase p);

#endif
