/* SPDX-License-Identifier: Apache-2.0
 * The stages of a restart on this node; restart.c starts them. */
#ifndef AGENT_STAGES_H
#define AGENT_STAGES_H

#include "coordinator/agent/restart/rank_restart.h"
#include "shim/process/image/image.h"

/* What ranks share: lowest: the first of them. */
struct common_restore {
	uint32_t lowest, number;
	int fd;                 /* memory; -1: a System V object */
	struct gck_ipc ipc;
};

struct restart {
	struct agent *agent;
	enum stage stage;
	uint32_t seq;
	char hash[sizeof ((struct worker_task *)0)->hash];
	uint32_t from_job, from_step;
	int pool;               /* while restorers are forked: of shared chunks; -1: none */
	struct rank_restart *ranks;
	size_t n;
	struct common_restore *common; /* made for this commit */
	size_t ncommon;
	bool files_asked;       /* the coordinator waits for `files` */
	bool run_asked;         /* and for `run`, which came before the files were done */
	bool over;              /* the coordinator has given it up */
	bool touched;           /* files may have been changed: no other commit fits them */
	struct gck_error why;   /* why it failed, in STAGE_FAILED */
	uint32_t failed_rank;
	uint64_t told_progress; /* UINT64_MAX: none yet */
	ev_tstamp began;
	ev_timer look, tick;
	ev_timer rebuild;       /* for ranks to be let go, and for MPI and CUDA to come back */
};

/* The first failure of a rank fails the restart on this node. */
void restart_fail(struct restart *r, const struct task *t, const struct gck_error *err);

/* A rank is done with its part: go on to the next stage if all are. */
void restart_advance(struct restart *r);

/* Tells every rank's restorer, until one cannot be told. */
void stages_tell(struct restart *r, void (*tell)(struct rank_restart *));

/* All ranks are built: answers `build`. */
void stages_answer_built(struct restart *r);

/* Restores the files of all ranks before any rank may run and write: ranks may share files. */
void stages_file(struct restart *r);

/* Lets all of them go. */
void stages_run(struct restart *r);

/* The timer for ranks that were told to run: their restorers did not let them go, or MPI or CUDA
 * did not come back. */
void stages_on_rebuild(struct ev_loop *loop, ev_timer *w, int events);

#endif
