/* SPDX-License-Identifier: Apache-2.0
 * What the parts of a restart on this node share: the restart (restart.c) and its ranks, each with
 * a restorer (returning.c). */
#ifndef AGENT_RANK_RESTART_H
#define AGENT_RANK_RESTART_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/worker/worker.h"

enum stage {
	STAGE_OFFERED,  /* the commit is known */
	STAGE_STARTING, /* told to build; ranks are on their way to their constructors */
	STAGE_BUILDING,
	STAGE_BUILT,
	STAGE_FILING,   /* files are brought back to what they were */
	STAGE_FILED,
	STAGE_RUNNING,  /* told to let go */
	STAGE_DONE,
	STAGE_FAILED,   /* a rank could not be restored; before any file was changed, a fallback
			 * may come */
};

struct returning {              /* a rank */
	struct restart *r;
	struct task *task;
	struct child *child;
	struct worker_task work;
	enum stage reached;     /* BUILDING, BUILT, FILED, DONE */
	json_int_t exit;        /* wait status of a rank that had finished; -1: it had not */
	bool has[RESTART_PARTS]; /* it is done only when these are back */
	bool back[RESTART_PARTS];
	bool ran;
	struct child *filler;   /* brings what its devices had; NULL: nobody does */
	int fills;              /* times that one was made */
	uint64_t filled;        /* bytes */
	uint64_t done, all;
};

/* Fork the restorer, which begins with the build of r->seq. */
void returning_start(struct returning *one);

/* What was built is to be thrown away: build r->seq. */
void returning_build(struct returning *one);

/* Bring files back; let the rank go. */
void returning_files(struct returning *one);
void returning_run(struct returning *one);

/* A part is back in it; one that it has and that is not, RESTART_PARTS: none. */
void returning_back(struct returning *one, enum restart_part part);

/* Its process has ended. Whether that is a failure may be for its restorer to tell. */
void returning_ended(struct returning *one);
enum restart_part returning_lacks(const struct returning *one);

/* End the restorer, and a rank that it has emptied. */
void returning_end(struct returning *one);

/* A rank's CUDA thread says that it wants it, the first time or because nobody brings it any more. */
void filling_wanted(struct agent *a, struct task *t);

/* The rank has all, or is given up. */
void filling_end(struct returning *one);

#endif
