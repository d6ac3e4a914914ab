/* SPDX-License-Identifier: Apache-2.0
 * `able`: what stands in the way of a checkpoint on this node. */
#ifndef AGENT_ABLE_H
#define AGENT_ABLE_H

#include "coordinator/agent/base/agent.h"

/* Find out in a job and send {"op":"able","id","items"}. */
void able_start(struct agent *a, json_int_t id);

#endif
