/* SPDX-License-Identifier: Apache-2.0
 * The state machine of a step: what happens next in a checkpoint or a restart is in one table of
 * (phase, event) -> (next phase, action), in machine.c. Events are queued, so an action may raise
 * one. */
#ifndef GCK_PHASE_H
#define GCK_PHASE_H

#include <stdbool.h>

struct gck_core;
struct gck_step;

enum gck_phase {
	/* a restart */
	GCK_GATHERING,  /* not every node has registered, or how to start is not decided */
	GCK_BUILDING,   /* every node builds its ranks out of a commit and holds them */
	GCK_FILING,     /* it is decided that they run; every node cuts its ranks' files back */
	GCK_STARTING,   /* they are let go; not every node has confirmed */
	GCK_DOOMED,     /* no commit can be restored: the job is given back, the step ends */
	/* life */
	GCK_IDLE,       /* the ranks run, nothing is under way */
	GCK_OVER,       /* the step has ended */
	/* a checkpoint */
	GCK_CALLING,    /* an agent is missing: a new one may be on its way */
	GCK_PREPARING,
	GCK_QUIESCING,  /* the ranks bring their MPI to rest; skipped where none has MPI */
	GCK_FREEZING,   /* from here on ranks may be held */
	GCK_RESUMING,
	GCK_WRITING,    /* the ranks run again */
	GCK_COMMITTING,
	GCK_ABORTING,   /* every rank is let go, what was written is discarded */
	/* a checkpoint whose ranks stay held */
	GCK_HELD_WRITING,
	GCK_HELD_COMMITTING,
	GCK_HELD,       /* committed; the operation decides what becomes of the ranks */
	GCK_RELEASING,  /* they go on after all */
	GCK_ENDING,     /* Slurm, or the agents, end them */
	/* the coordinator was away */
	GCK_RECOVERING, /* whether a checkpoint's commit was written is being found out */
	GCK_PHASES
};

enum gck_event {
	GCK_START,      /* an operation wants a checkpoint */
	GCK_ALL,        /* every node has done what this phase asks */
	GCK_ALL_HELD,   /* the same, and the ranks are to stay held */
	GCK_ALL_MPI,    /* the same, and there are ranks with MPI */
	GCK_FAILED,     /* a node could not, or we could not */
	GCK_TIMEOUT,
	GCK_LOST,       /* the connection of an agent ended */
	GCK_BACK,       /* a node's agent registered again */
	GCK_CANCEL,     /* the operation gave up */
	GCK_RELEASE,    /* held ranks are to go on */
	GCK_TERMINATE,  /* held ranks are to end */
	GCK_TAKEN,      /* Slurm has requeued the job */
	GCK_RESTORE,    /* restart: all nodes are here, a commit is chosen */
	GCK_RUNS,       /* restart: nothing to restore; or it runs already */
	GCK_NONE_LEFT,  /* restart: no further commit that can be restored now */
	GCK_REFUSED,    /* restart: it is not to start at all */
	GCK_FOUND,      /* recovery: the commit object is there */
	GCK_MISSING,    /* recovery: it is not */
	GCK_ENDED,      /* the step is over everywhere */
	GCK_EVENTS
};

const char *gck_phase_name(enum gck_phase phase);
const char *gck_event_name(enum gck_event event);

/* Ranks may be held by a checkpoint in this phase. */
bool gck_phase_holds(enum gck_phase phase);

/* Queue an event for a step that lives, and work the queue off unless that is under way. */
void gck_raise(struct gck_core *core, struct gck_step *step, enum gck_event event);

/* Between these two events are queued only, for a caller whose own data the actions may free. */
bool gck_defer(struct gck_core *core);
void gck_undefer(struct gck_core *core, bool was);

#endif
