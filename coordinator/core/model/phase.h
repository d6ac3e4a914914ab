/* SPDX-License-Identifier: Apache-2.0
 * The phases of a step and the events that lead from one to the next. machine/machine.c has the
 * table. */
#ifndef GCK_PHASE_H
#define GCK_PHASE_H

enum gck_phase {
	/* a restart */
	GCK_GATHERING,  /* waits for every node to register, and for the decision how to start */
	GCK_BUILDING,   /* every node builds its ranks from a commit and holds them */
	GCK_FILING,     /* decided: the ranks run; every node truncates its ranks' files */
	GCK_STARTING,   /* the ranks are released; some nodes have not confirmed */
	GCK_DOOMED,     /* no commit can be restored: the job is requeued or held, the step ends */
	/* normal operation */
	GCK_IDLE,       /* the ranks run, no checkpoint is under way */
	GCK_OVER,       /* the step has ended */
	/* a checkpoint */
	GCK_CALLING,    /* an agent is missing; its successor may be connecting */
	GCK_PREPARING,
	GCK_PREPARED,   /* waits for the other steps of its operation, as in the other ...ED */
	GCK_QUIESCING,  /* the ranks quiesce MPI, if any has it */
	GCK_QUIESCED,
	GCK_FREEZING,   /* from here on ranks may be held */
	GCK_FROZEN,     /* one instant for all steps: none goes on before all are here */
	GCK_RESUMING,
	GCK_RESUMED,
	GCK_WRITING,    /* the ranks run again */
	GCK_COMMITTING,
	GCK_ABORTING,   /* every rank is released, what was written is discarded */
	/* a checkpoint whose ranks stay held */
	GCK_HELD_WRITING,
	GCK_HELD_COMMITTING,
	GCK_HELD,       /* committed; the operation decides what happens to the ranks */
	GCK_RELEASING,  /* the held ranks go on */
	GCK_ENDING,     /* Slurm or the agents end the ranks */
	/* the coordinator was restarted */
	GCK_RECOVERING, /* finds out whether the commit object was written */
	GCK_PHASES
};

enum gck_event {
	GCK_START,      /* an operation wants a checkpoint */
	GCK_ALL,        /* every node has done what this phase asks */
	GCK_MET,        /* every step of the operation has come as far */
	GCK_MET_HELD,   /* the same, and the ranks stay held */
	GCK_FAILED,     /* a node or the coordinator failed */
	GCK_TIMEOUT,
	GCK_LOST,       /* the connection of an agent ended */
	GCK_BACK,       /* a node's agent registered again */
	GCK_CANCEL,     /* the operation gave up */
	GCK_RELEASE,    /* held ranks must go on */
	GCK_TERMINATE,  /* held ranks must end */
	GCK_TAKEN,      /* Slurm has requeued the job */
	GCK_RESTORE,    /* restart: all nodes are here, a commit is chosen */
	GCK_RUNS,       /* restart: nothing to restore, or the ranks run already */
	GCK_NONE_LEFT,  /* restart: no other commit can be restored now */
	GCK_REFUSED,    /* restart: the step must not start */
	GCK_FOUND,      /* recovery: the commit object exists */
	GCK_MISSING,    /* recovery: the commit object does not exist */
	GCK_ENDED,      /* the step is over on every node */
	GCK_EVENTS
};

#endif
