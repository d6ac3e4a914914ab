/* SPDX-License-Identifier: Apache-2.0
 * Fault injection for tests, in builds with --enable-faults; in other builds a point does nothing.
 *
 * GPUCKPT_FAULT=NUMBER:FILE in the environment: a process that passes the point of this number
 * removes FILE and kills itself with SIGKILL. Without FILE nothing happens, so it dies once.
 *
 * GPUCKPT_FAULT=/DIR holds for all points. POINT is a name of the list below without GCK_FAULT_.
 * The file DIR/kill.POINT works like FILE. DIR/hold.POINT holds the thread that passes the point:
 * the thread renames the file to DIR/held.POINT and waits until that is removed.
 *
 * YAMA is no point: while DIR/on.YAMA exists, agents trace as with kernel.yama.ptrace_scope 1, on a
 * kernel without Yama, too. A process writes the tracer that it allows (int32_t) into
 * DIR/tracer.NAMESPACE.PID, besides its prctl(PR_SET_PTRACER). */
#ifndef GCK_FAULT_H
#define GCK_FAULT_H

enum gck_fault {
	GCK_FAULT_NONE,
	GCK_FAULT_AGENT_PREPARE,   /* the workers are forked */
	GCK_FAULT_AGENT_PREPARED,  /* about to answer */
	GCK_FAULT_AGENT_FREEZE,    /* the workers have the order to freeze */
	GCK_FAULT_AGENT_FROZEN,    /* the ranks are held; about to answer */
	GCK_FAULT_AGENT_RESUME,    /* the workers have the order to release the ranks */
	GCK_FAULT_AGENT_RESUMED,   /* about to answer */
	GCK_FAULT_AGENT_WRITE,     /* the workers have the order to write */
	GCK_FAULT_AGENT_WRITTEN,   /* about to answer */
	GCK_FAULT_AGENT_COMMIT,    /* the commit object is being written */
	GCK_FAULT_AGENT_COMMITTED, /* the commit object is written; about to answer */
	GCK_FAULT_WORKER_FROZEN,   /* the rank's threads are stopped */
	GCK_FAULT_WORKER_TAKEN,    /* the clone of the rank exists */
	GCK_FAULT_WORKER_RESUMED,  /* the rank runs */
	GCK_FAULT_WORKER_WRITE,    /* about to write chunks */
	GCK_FAULT_WORKER_STAGED,   /* chunks are written or staged; about to upload staged ones */
	GCK_FAULT_RESTORE_BUILD,   /* about to unmap the memory of the process */
	GCK_FAULT_RESTORE_BUILT,   /* the rank is built and held */
	GCK_FAULT_RESTORE_FILES,   /* about to truncate files */
	GCK_FAULT_RESTORE_RUN,     /* about to release the rank */
	GCK_FAULT_MPI_ROUND,       /* a rank's MPI thread is about to send READY */
	GCK_FAULT_MPI_READY,       /* READY is sent: other ranks may be in PMIx's fence */
	GCK_FAULT_MPI_FENCE,       /* in the fence */
	GCK_FAULT_MPI_BRING_ON,    /* about to progress pending operations and receive messages */
	GCK_FAULT_MPI_SAVE,        /* no operation is pending */
	GCK_FAULT_MPI_QUIESCED,    /* MPI is quiesced; about to answer */
	GCK_FAULT_MPI_RESTORED,    /* the restored image runs; its MPI library is dead */
	GCK_FAULT_MPI_LOADED,      /* a new MPI library is loaded */
	GCK_FAULT_MPI_INITIALIZED, /* the new library is initialised */
	GCK_FAULT_MPI_REBUILT,     /* all MPI objects are rebuilt; about to answer */
	GCK_FAULT_YAMA,            /* a process may be traced by ancestors, and by whom it names */
	GCK_FAULT_LIMIT
};

#ifdef GCK_FAULTS
#include <limits.h>
#include <stdbool.h>
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
