/* SPDX-License-Identifier: Apache-2.0
 * The parent of the agent proper: keeps what must outlive it (the control socket, the listening
 * socket, the table of ranks) and forks it again when it dies. Does nothing that could fail. */
#ifndef AGENT_SUPERVISE_H
#define AGENT_SUPERVISE_H

#include "coordinator/agent/step.h"

/* Shared memory between the supervisor and every agent that it forks. */
struct lasting {
	uint64_t epoch;  /* highest of a coordinator whose word was taken */
	int released;    /* ranks were let go: what comes later is not the step's start */
};

/* Serve until the step ends: the exit status. */
int supervise(const struct step *s);

#endif
