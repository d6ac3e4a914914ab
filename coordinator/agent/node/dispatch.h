/* SPDX-License-Identifier: Apache-2.0
 * What the coordinator says, by its "op". */
#ifndef AGENT_DISPATCH_H
#define AGENT_DISPATCH_H

#include "coordinator/agent/upstream/upstream.h"

/* For upstream_start. A message from a coordinator older than one that was heard closes the connection. */
extern const struct upstream_ops dispatch;

#endif
