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
#include "coordinator/agent/node/supervise.h"

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

/* The agent's process: its exit status, 0 when the step has ended in good order. */
int agent_run(const struct step *s, struct lasting *lasting, int control);

/* As in struct agent_ops. */
void agent_open(struct agent *a);
void agent_end_ranks(struct agent *a, const char *why, bool at_once);

/* Ranks leave before main: with what they had ended with (statuses, borrowed), or with a failure.
 * why is for the user. */
void agent_finished(struct agent *a, json_t *statuses, const char *why);
void agent_refuse(struct agent *a, const char *why);

/* The coordinator was heard, or is out of reach: patience at a restart. */
void agent_heard(struct agent *a);
void agent_unheard(struct agent *a);

#endif
