/* SPDX-License-Identifier: Apache-2.0
 * The state of the agent's process: one event loop that serves the links of this node's ranks
 * (links.h), the coordinator (upstream.h), and a checkpoint (transaction.h) or a restart
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
	uint64_t epoch;  /* the highest epoch of a coordinator that was obeyed */
	int64_t welcomed_ms; /* its last welcome, by gck_boot_ms() */
	uint32_t restarts; /* the job's restart count: the environment's, until the coordinator
			    * tells Slurm's */
	int counted;     /* it has told Slurm's */
	int bound;       /* only the coordinator may let the ranks go */
	int restored;    /* ranks were let go out of their images; MPI may not be back in them */
	uint32_t slurmd_timeout_s; /* SlurmdTimeout; 0: none, or not known yet */
	int64_t unheard_ms; /* since when the coordinator is silent (node_isolation.h); 0: it is
			     * connected */
	int64_t awake_ms; /* when an agent last found this node awake; 0: it does not look */
	int64_t lease_ms; /* until when the ranks may run (lease.h), by gck_boot_ms(); 0: without
			   * a limit */
	int cut_off;     /* this node is isolated: its ranks must stay stopped */
	int released;    /* the ranks were let go: the start of the step is over */
	int late;        /* the agent was forked after the end of the step, to await its requeue */
};

/* What ranks that wait in their constructor are told. */
enum gate {
	GATE_OPEN,  /* go: a first start, or the coordinator said "cold" or "run" */
	GATE_WAIT,  /* nothing yet: a restart waits for the coordinator, or a first start for the
		     * look into the store (gate_check_first_start) */
	GATE_HOLD,  /* hold: the ranks will be restored */
	GATE_EXIT,  /* exit, with the status in `statuses` */
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
	struct isolation *isolation;
	enum gate gate;
	json_t *statuses;         /* GATE_EXIT: wait statuses, by rank */
	int failure;              /* GATE_EXIT without statuses: the exit status */
	struct transaction *transaction; /* NULL: no checkpoint is in progress */
	struct restart *restart;  /* NULL: no restart is in progress */
	struct reclaim *reclaims; /* requests for device memory (reclaim.h) */
	uint64_t request_id;          /* of the last request that the coordinator was sent
				       * (rank_request.h) */
	bool refused;             /* the user was told that this step has no checkpoints */
	bool squatted;            /* the log has who took the name of the job's directory */
	bool superseded;          /* the job has a newer start: this one is ended (incarnation.h) */
	ev_timer patience;        /* at a restart: how long to wait for the coordinator */
	ev_timer last_resort;     /* between the signal that ends ranks and SIGKILL */
};

/* What checkpoints and restarts ask of the files above them. */
struct agent_ops {
	/* Let the ranks go. Hold them, because the coordinator has a commit of this step. */
	void (*open)(struct agent *a);
	void (*hold)(struct agent *a);
	/* End the ranks. why is told to the user. at_once: by SIGKILL; else SIGTERM comes first. */
	void (*end_ranks)(struct agent *a, const char *why, bool at_once);
	/* The job may have been requeued, and the coordinator is silent: the ranks must stay
	 * stopped (lasting->cut_off) until Slurm says that it runs here. */
	void (*doubt)(struct agent *a);
};

#endif
