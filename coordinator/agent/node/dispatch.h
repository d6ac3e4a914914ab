/* SPDX-License-Identifier: Apache-2.0
 * What the coordinator says, by its "op". */
#ifndef AGENT_DISPATCH_H
#define AGENT_DISPATCH_H

#include "coordinator/agent/base/agent.h"

/* Act on a message. -1: it comes from a coordinator that is not to be heard (an older one), and
 * the connection is to be closed. */
int dispatch(struct agent *a, const json_t *body);

/* The connection was lost, or a coordinator was welcomed. */
void dispatch_connection(struct agent *a, bool there);

#endif
