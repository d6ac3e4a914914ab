/* SPDX-License-Identifier: Apache-2.0
 * Faults to order, for tests: in a build made with --enable-faults the environment variable
 * GPUCKPT_FAULT=NUMBER:FILE kills (SIGKILL) the process that passes the point of that number, once:
 * it removes FILE, and without FILE nothing happens. In other builds a point is nothing. */
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
	GCK_FAULT_RESTORE_BUILD,   /* about to empty the process */
	GCK_FAULT_RESTORE_BUILT,   /* built and held */
	GCK_FAULT_RESTORE_FILES,   /* about to cut files back */
	GCK_FAULT_RESTORE_RUN,     /* about to let the rank go */
	GCK_FAULT_LIMIT
};

#ifdef GCK_FAULTS
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static inline void gck_fault_pass(enum gck_fault point)
{
	const char *text = getenv("GPUCKPT_FAULT");
	char *file;

	if (!text || strtol(text, &file, 10) != (long)point || *file != ':')
		return;
	if (unlink(file + 1) == 0)
		kill(getpid(), SIGKILL);
}
#define GCK_FAULT(point) gck_fault_pass(point)
#else
#define GCK_FAULT(point) ((void)0)
#endif

#endif
