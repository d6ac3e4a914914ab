/* SPDX-License-Identifier: Apache-2.0
 * The agent proper: one event loop that serves the shims of this node's ranks (links.h), the
 * coordinator (upstream.h) and whatever is under way: a checkpoint (transaction.h) or a restart
 * (restart.h). What blocks runs in processes of its own (child.h). */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "coordinator/agent/base/step.h"
#include "coordinator/agent/base/tasks.h"

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

/* What a rank that waits in its constructor is told. */
enum gate {
	GATE_OPEN,  /* go: a first start, or the coordinator's word is "cold" or "run" */
	GATE_WAIT,  /* nothing yet: a restart, and the coordinator's word is not there; or the store
		     * is being looked at (first.h) */
	GATE_HOLD,  /* hold: it will be restored */
	GATE_EXIT,  /* leave, with the status of `statuses` */
};

struct agent_ops;

struct agent {
	const struct agent_ops *ops;
	struct ev_loop *loop;
	const struct step *step;
	struct lasting *lasting;
	int control;              /* control packets, from the supervisor */
	ev_io control_io;
	struct tasks tasks;
	struct links *links;
	struct upstream *upstream;
	struct lease *lease;
	enum gate gate;
	json_t *statuses;         /* GATE_EXIT: wait statuses by rank */
	int failure;              /* GATE_EXIT without statuses: the status to leave with */
	struct transaction *transaction; /* NULL: no checkpoint is under way */
	struct restart *restart;         /* NULL: no restart is under way */
	struct need *needs;              /* of device memory (needs.h) */
	uint64_t ask_id;          /* the last that the coordinator was asked under (asks.h) */
	bool refused;             /* the user was told that there will be no checkpoints */
	ev_timer patience;        /* at a restart: until the coordinator must have been heard */
	ev_timer last_resort;     /* ranks that were asked to end: until they are made to */
};

/* What checkpoints and restarts ask of the event loop above them. */
struct agent_ops {
	/* Let the ranks go on; hold them, for the coordinator has a commit of this step. */
	void (*open)(struct agent *a);
	void (*hold)(struct agent *a);
	/* End the ranks. why is for the user. at_once: SIGKILL; else SIGTERM first. */
	void (*end_ranks)(struct agent *a, const char *why, bool at_once);
};

#endif
