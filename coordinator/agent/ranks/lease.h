/* SPDX-License-Identifier: Apache-2.0
 * Leases of the ranks. A rank runs on a lease that the agent renews (LEASE). If the agent does not
 * run, because nothing runs on its node, the kernel stops the rank at the lease's end, so that
 * nothing of the rank runs between the end of such a stand and the agent's next step. The agent
 * lets it go on when it renews the lease. An agent that dies, or has no connection to the rank,
 * takes the lease with it: the rank runs without one. */
#ifndef AGENT_LEASE_H
#define AGENT_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct link;
struct task;

/* Lets all ranks run until then; those that the end of their lease has stopped go on. 0: without
 * leases. */
void lease_renew(struct agent *a, int64_t until_ms);

/* Takes note of ranks that a signal has stopped while their leases last. */
void lease_look(struct agent *a);
/* The same for one, before its link is closed. If its lease stops it before it finds that out, it
 * goes on at the next renewal, and connects again. */
void lease_look_at(struct task *t);

/* Lets ranks go on that stand without a link: an agent that died has left them so. suspended: Slurm
 * has stopped all ranks, and lets them go itself. */
void lease_end_stand(struct agent *a, bool suspended);

/* Gives a rank that was told to go its first lease, if there are leases. */
void lease_give(struct link *l);

#endif
