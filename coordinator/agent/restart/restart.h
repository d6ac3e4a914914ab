/* SPDX-License-Identifier: Apache-2.0
 * A restart on this node: one restorer per rank. Build and hold, restore files, let go: all ranks
 * finish each before the next. */
#ifndef AGENT_RESTART_H
#define AGENT_RESTART_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/ranks/thread_link.h"

/* The coordinator's welcome{restore}: this commit will be built when the coordinator orders it.
 * -1 without memory. */
int restart_offered(struct agent *a, const json_t *welcome);

/* Obeys build, files, run or fallback. */
void restart_command(struct agent *a, const char *op, const json_t *body);

void restart_task_ended(struct restart *r, struct task *t);

/* A rank has moved into a PID namespace (0), or cannot (an errno value). */
void restart_moved(struct agent *a, const struct task *t, int code);

/* What a thread of ours brings back in a rank that runs. */
enum restart_part { RESTART_MPI, RESTART_CUDA, RESTART_PARTS };

/* The thread with this link has brought its part back (why: NULL), or could not. */
void restart_back(const struct thread_link *l, enum restart_part part, const struct gck_error *why);

/* Is a commit being built, or built and held? Then *seq is set to it. */
bool restart_building(const struct restart *r, uint32_t *seq);

/* Does it need the coordinator to go on? */
bool restart_waits(const struct restart *r);

/* The ranks were killed: their restorers leave, because slurmstepd hears of a rank's end only
 * then. */
void restart_give_up(struct restart *r);

#endif
