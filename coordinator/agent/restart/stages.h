/* SPDX-License-Identifier: Apache-2.0
 * The stages of a restart on this node (restart.c: what takes it from one to the next). */
#ifndef AGENT_STAGES_H
#define AGENT_STAGES_H

#include "coordinator/agent/restart/rank_restart.h"

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

/* The first failure of a rank fails the restart on this node. */
void restart_fail(struct restart *r, const struct task *t, const struct gck_error *err);

/* A rank has done what it was told: the restart may be a stage further. */
void restart_settle(struct restart *r);

/* Tell every rank's restorer, until one cannot be told. */
void stages_tell(struct restart *r, void (*tell)(struct returning *));

/* All ranks are built: the answer to `build`. */
void stages_answer_built(struct restart *r);

/* Ranks may share files: none may run, and write, before the files of all are as they were. */
void stages_file(struct restart *r);

/* Let all of them go. */
void stages_run(struct restart *r);

/* The timer for ranks that were told to run: their restorers let them go, MPI and CUDA come back. */
void stages_on_rebuild(struct ev_loop *loop, ev_timer *w, int events);

#endif
