/* SPDX-License-Identifier: Apache-2.0
 * A first start: whether it is one is looked up in the store too, for the count of restarts comes
 * from srun's environment, which a script may have emptied. */
#ifndef AGENT_GATE_H
#define AGENT_GATE_H

#include "coordinator/agent/base/agent.h"

/* Look, for a few seconds at most, then call decided: with agent's lasting->bound set if the store
 * has a commit of this step. */
void first_look(struct agent *a, void (*decided)(struct agent *a));

#endif
