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
	STAGE_REOPENING, /* ... and opened, by ranks that did not make them */
	STAGE_FILED,
	STAGE_RUNNING,  /* told to let go */
	STAGE_DONE,
	STAGE_FAILED,   /* a rank could not be restored; before any file was changed, a fallback
			 * may follow */
};

/* A process of a rank that must come back with its GPUs. */
struct gpu_restart {
	struct rank_restart *one;
	pid_t number;           /* in the image */
	bool back;
	struct child *child;    /* sends its devices' data; NULL: none */
	int children;           /* how many of these there were */
	uint64_t bytes;         /* sent by the current one */
};

struct rank_restart {              /* a rank */
	struct restart *r;
	struct task *task;
	struct child *child;
	struct worker_task work;
	enum stage reached;     /* BUILDING, BUILT, REOPENING, FILED or DONE */
	json_int_t exit;        /* wait status of a rank that had finished; -1: it had not */
	bool has_mpi, mpi_back; /* what it has must be back before it is done */
	struct gpu_restart *gpus;
	size_t ngpus;
	bool ran;
	bool sized;             /* `all` is known */
	uint64_t done, all;     /* bytes of its build */
};

/* Forks the restorer, which begins with the build of r->seq. */
void rank_restart_start(struct rank_restart *one);

/* Throws away what was built, and builds r->seq. */
void rank_restart_build(struct rank_restart *one);

/* The rank was asked to go on in a PID namespace, for an image with static programs: it is there
 * (0), or stays (an errno value). */
void rank_restart_moved(struct rank_restart *one, int code);

/* Restore files; open those of others; let the rank go. */
void rank_restart_files(struct rank_restart *one);
void rank_restart_reopen(struct rank_restart *one);
void rank_restart_run(struct rank_restart *one);

/* A part is back; of CUDA, in the process with this number. */
void rank_restart_back(struct rank_restart *one, enum restart_part part, pid_t number);

/* The first part that is not back; RESTART_PARTS: none. */
enum restart_part rank_restart_lacks(const struct rank_restart *one);

/* The rank's process has ended. Its restorer may still report that this is no failure. */
void rank_restart_ended(struct rank_restart *one);

/* Ends the restorer, and with it a rank that it has emptied, and what sends device data. */
void rank_restart_end(struct rank_restart *one);

/* A process's CUDA thread asks for its devices' data, the first time or because the child that sent
 * it has ended. */
void device_restore_wanted(struct thread_link *l);

#endif
