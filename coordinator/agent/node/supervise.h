/* SPDX-License-Identifier: Apache-2.0
 * The parent of the agent proper: keeps what must outlive it (the control socket, the listening
 * socket, the table of ranks) and forks it again when it dies. Does nothing that could fail. */
#ifndef AGENT_SUPERVISE_H
#define AGENT_SUPERVISE_H

#include "coordinator/agent/base/step.h"

/* Shared memory between the supervisor and every agent that it forks. */
struct lasting {
	uint64_t epoch;  /* highest of a coordinator whose word was taken */
	uint32_t restarts; /* of the job: the environment's count until the coordinator has told Slurm's */
	int bound;       /* only the coordinator's word may let the ranks go */
	int restored;    /* they were told to run out of their images; MPI may not be back in them */
	uint32_t slurmd_timeout_s; /* SlurmdTimeout; 0: none, or not told yet */
	int64_t unheard_ms; /* the lease runs from then on (lease.h); 0: the coordinator is there */
	int cut_off;     /* the lease is over: the ranks are to stand still */
	int released;    /* they were let go: what comes later is not the step's start */
};

struct supervisor;

/* All that may fail. What is left then the process's end cleans up. */
struct supervisor *supervisor_new(const struct step *s, struct gck_error *err);

/* Serve until the step ends: the exit status. s is gone then. */
int supervise(struct supervisor *s);

#endif
