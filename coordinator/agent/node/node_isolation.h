/* SPDX-License-Identifier: Apache-2.0
 * A node that is cut off. When slurmctld has not heard from a node for SlurmdTimeout, it requeues
 * the node's jobs. But a node that is only cut off still runs their ranks, which write to the
 * same files as the job's next start. So ranks may run only while the coordinator is connected,
 * or Slurm says that this start of the job runs. Otherwise the node is isolated: its ranks are
 * stopped (rank_tracer_main) until Slurm says so. gpuckptd or slurmctld alone may be away for any
 * time. If Slurm says that the job was requeued, its ranks here are ended (incarnation.h).
 *
 * The node is isolated after two thirds of SlurmdTimeout. slurmctld pings nodes in rounds of a
 * third: its last contact may be that old when the node is cut off, and it takes the node for
 * down in the first round after SlurmdTimeout has passed. */
#ifndef AGENT_NODE_ISOLATION_H
#define AGENT_NODE_ISOLATION_H

#include "coordinator/agent/base/agent.h"

struct isolation *isolation_start(struct agent *a) GCK_MUST_CHECK;

/* SlurmdTimeout, as the coordinator reports it. 0: nodes are never taken for down, and never
 * isolated. */
void isolation_term(struct isolation *l, json_int_t slurmd_timeout_s);

/* The coordinator is connected, or out of reach. isolation_unheard is idempotent. */
void isolation_heard(struct isolation *l);
void isolation_unheard(struct isolation *l);

/* Isolates the node at once, as struct agent_ops wants. */
void isolation_doubt(struct isolation *l);

#endif
