/* SPDX-License-Identifier: Apache-2.0
 * How much of its devices' memory each rank may use for copies of what it has there: ranks that share a device,
 * which is known by its UUID, share its room as they share its memory. Of the workers' answers to `prepare`:
 * "devices", a list of {"uuid", "bytes", "room"} in the rank's order. */
#ifndef AGENT_DEVICE_BUDGET_H
#define AGENT_DEVICE_BUDGET_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"

/* After `prepare` of all ranks: each member's keep_most and finds_room. Without memory to count nothing finds
 * room. */
void rooms_share(struct transaction *t);

#endif
