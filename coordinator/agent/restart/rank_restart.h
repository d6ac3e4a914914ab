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

struct restart {
	struct agent *agent;
	enum stage stage;
	uint32_t seq;
	char hash[sizeof ((struct worker_task *)0)->hash];
	uint32_t from_job, from_step;
	int pool;               /* while restorers are forked: of what ranks share; -1: none */
	struct returning *ranks;
	size_t n;
	bool files_asked;       /* the coordinator waits for `files` */
	bool run_asked;         /* and for `run`, which came before the files were done */
	bool over;              /* the coordinator has given it up */
	bool touched;           /* files may have been changed: no other commit fits them */
	struct gck_error why;   /* STAGE_FAILED */
	uint32_t failed_rank;
	uint64_t told_progress;
	ev_tstamp began;
	ev_timer look, tick;
	ev_timer rebuild;       /* for ranks to be let go, and MPI and CUDA to come back */
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

/* ---- what ranks tell their restart ---- */

/* The first failure of a rank fails the restart on this node. */
void restart_fail(struct restart *r, const struct task *t, const struct gck_error *err);

/* A rank has done what it was told: the restart may be a stage further. */
void restart_settle(struct restart *r);

#endif
