/* SPDX-License-Identifier: Apache-2.0
 * Faults to order, for tests: in a build made with --enable-faults the environment variable
 * GPUCKPT_FAULT=NUMBER:FILE kills (SIGKILL) the process that passes the point of that number,
 * once: it removes FILE, and without FILE nothing happens. GPUCKPT_FAULT=/DIR is for all points:
 * the file DIR/kill.POINT (as below, without GCK_FAULT_) does the same, and DIR/hold.POINT holds
 * the thread that passes for as long as DIR/held.POINT, as it is called from then on, is there.
 * In other builds a point is nothing. */
#ifndef GCK_FAULT_H
#define GCK_FAULT_H

enum gck_fault {
	GCK_FAULT_NONE,
	GCK_FAULT_AGENT_PREPARE,   /* workers were forked */
	GCK_FAULT_AGENT_PREPARED,  /* about to answer */
	GCK_FAULT_AGENT_FREEZE,    /* workers were told to freeze */
	GCK_FAULT_AGENT_FROZEN,    /* ranks are held, about to answer */
	GCK_FAULT_AGENT_RESUME,    /* workers were told to let go */
	GCK_FAULT_AGENT_RESUMED,   /* about to answer */
	GCK_FAULT_AGENT_WRITE,     /* workers were told to write */
	GCK_FAULT_AGENT_WRITTEN,   /* about to answer */
	GCK_FAULT_AGENT_COMMIT,    /* the commit object is being written */
	GCK_FAULT_AGENT_COMMITTED, /* it is written, about to answer */
	GCK_FAULT_WORKER_FROZEN,   /* the rank's threads are stopped */
	GCK_FAULT_WORKER_TAKEN,    /* the clone is there */
	GCK_FAULT_WORKER_RESUMED,  /* the rank runs */
	GCK_FAULT_WORKER_WRITE,    /* about to write chunks */
	GCK_FAULT_WORKER_STAGED,   /* chunks are written or staged; about to upload these */
	GCK_FAULT_RESTORE_BUILD,   /* about to empty the process */
	GCK_FAULT_RESTORE_BUILT,   /* built and held */
	GCK_FAULT_RESTORE_FILES,   /* about to cut files back */
	GCK_FAULT_RESTORE_RUN,     /* about to let the rank go */
	GCK_FAULT_MPI_ROUND,       /* in a rank's MPI thread: about to say READY */
	GCK_FAULT_MPI_READY,       /* said so: the others may be in PMIx's fence */
	GCK_FAULT_MPI_FENCE,       /* in it */
	GCK_FAULT_MPI_BRING_ON,    /* about to bring on what is under way, and take messages in */
	GCK_FAULT_MPI_SAVE,        /* nothing is under way any more */
	GCK_FAULT_MPI_QUIESCED,    /* at rest, about to answer */
	GCK_FAULT_MPI_RESTORED,    /* the image runs, with a dead copy of MPI */
	GCK_FAULT_MPI_LOADED,      /* with a new one */
	GCK_FAULT_MPI_INITIALIZED, /* which is initialised */
	GCK_FAULT_MPI_REBUILT,     /* and has all objects; about to answer */
	GCK_FAULT_LIMIT
};

#ifdef GCK_FAULTS
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GCK_FAULT_PREFIX "GCK_FAULT_"

static inline void gck_fault_in(const char *dir, const char *name)
{
	char kills[PATH_MAX], holds[PATH_MAX], held[PATH_MAX];

	snprintf(kills, sizeof kills, "%s/kill.%s", dir, name);
	snprintf(holds, sizeof holds, "%s/hold.%s", dir, name);
	snprintf(held, sizeof held, "%s/held.%s", dir, name);
	if (unlink(kills) == 0)
		kill(getpid(), SIGKILL);
	if (rename(holds, held) == 0)
		while (access(held, F_OK) == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static inline void gck_fault_pass(enum gck_fault point, const char *name)
{
	const char *text = getenv("GPUCKPT_FAULT");
	char *file;

	if (text && *text == '/')
		gck_fault_in(text, name + strlen(GCK_FAULT_PREFIX));
	else if (text && strtol(text, &file, 10) == (long)point && *file == ':' &&
		 unlink(file + 1) == 0)
		kill(getpid(), SIGKILL);
}
#define GCK_FAULT(point) gck_fault_pass(point, #point)
#else
#define GCK_FAULT(point) ((void)0)
#endif

#endif
