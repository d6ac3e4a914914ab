/* SPDX-License-Identifier: Apache-2.0
 * A node that is cut off. When slurmctld has not heard from a node for SlurmdTimeout it requeues the node's
 * jobs; but a node that is only cut off still runs their ranks, which then write to the same files as the job
 * that was started again. So the ranks here run on a lease: as long as the coordinator is connected, or Slurm
 * says that this start of the job runs. When the lease ends they are stopped (holder_main) until Slurm says so.
 * gpuckptd or slurmctld alone may be away for as long as it takes.
 *
 * It ends after two thirds of SlurmdTimeout: slurmctld pings nodes in rounds of a third, so its last word from
 * a node may be that old when the node is cut off, and it takes a node for down in the round after that in
 * which SlurmdTimeout has passed since. */
#ifndef AGENT_NODE_ISOLATION_H
#define AGENT_NODE_ISOLATION_H

#include "coordinator/agent/base/agent.h"

struct lease *lease_start(struct agent *a);

/* Slurm's SlurmdTimeout as the coordinator tells it; 0: nodes are never taken for down, there is no lease. */
void lease_term(struct lease *l, json_int_t slurmd_timeout_s);

/* The coordinator was heard, or is out of reach; for the latter it may be said again and again. */
void lease_heard(struct lease *l);
void lease_unheard(struct lease *l);

#endif
