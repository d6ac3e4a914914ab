/* SPDX-License-Identifier: Apache-2.0
 * A restart on this node: one restorer per rank. Build and hold, bring files back,
 * let go: each for all ranks before the next. */
#ifndef AGENT_RESTART_H
#define AGENT_RESTART_H

#include "coordinator/agent/base/agent.h"

/* The coordinator's welcome{restore}: this commit is to be built when it says so. 0. */
int restart_offered(struct agent *a, const json_t *welcome);

/* The coordinator's build, files, run, fallback. */
void restart_command(struct agent *a, const char *op, const json_t *body);

void restart_task_ended(struct restart *r, struct task *t);

/* What comes back by itself in a rank that runs, by a thread of ours. */
enum restart_part { RESTART_MPI, RESTART_CUDA, RESTART_PARTS };

/* A rank's thread has brought its part back (why NULL), or could not. */
void restart_back(struct agent *a, const struct task *t, enum restart_part part,
		  const struct gck_error *why);

/* Is a commit being built, or built and held? Then seq is set to which. */
bool restart_building(const struct restart *r, uint32_t *seq);

/* Does it need the coordinator's word to go on? */
bool restart_waits(const struct restart *r);

/* The ranks were killed: their restorers leave, for only then slurmstepd hears of a rank's end. */
void restart_give_up(struct restart *r);

#endif
