/* SPDX-License-Identifier: Apache-2.0
 * One rank of this node in a restart: its restorer, the process that sends its devices' data, and
 * what they answer. */
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
	STAGE_FILING,   /* files are being restored */
	STAGE_FILED,
	STAGE_RUNNING,  /* told to let go */
	STAGE_DONE,
	STAGE_FAILED,   /* a rank could not be restored; before any file was changed, a fallback
			 * may follow */
};

struct rank_restart {              /* a rank */
	struct restart *r;
	struct task *task;
	struct child *child;
	struct worker_task work;
	enum stage reached;     /* BUILDING, BUILT, FILED or DONE */
	json_int_t exit;        /* wait status of a rank that had finished; -1: it had not */
	bool has[RESTART_PARTS]; /* parts that must be back before it is done */
	bool back[RESTART_PARTS];
	bool ran;
	struct child *device_restore; /* sends its devices' data; NULL: none */
	int device_restores;    /* how many of these there were */
	uint64_t device_bytes;  /* sent by the current one */
	bool sized;             /* `all` is known */
	uint64_t done, all;     /* bytes of its build */
};

/* Forks the restorer, which begins with the build of r->seq. */
void rank_restart_start(struct rank_restart *one);

/* Throws away what was built, and builds r->seq. */
void rank_restart_build(struct rank_restart *one);

/* Restore files; let the rank go. */
void rank_restart_files(struct rank_restart *one);
void rank_restart_run(struct rank_restart *one);

/* A part is back. The first part that is not, RESTART_PARTS: none. */
void rank_restart_back(struct rank_restart *one, enum restart_part part);

/* The rank's process has ended. Its restorer may still report that this is no failure. */
void rank_restart_ended(struct rank_restart *one);
enum restart_part rank_restart_lacks(const struct rank_restart *one);

/* Ends the restorer, and with it a rank that it has emptied. */
void rank_restart_end(struct rank_restart *one);

/* A rank's CUDA thread asks for its devices' data, the first time or because the process that
 * sent it has ended. */
void device_restore_wanted(struct agent *a, struct task *t);

/* The rank has all data, or is given up. */
void device_restore_end(struct rank_restart *one);

#endif
