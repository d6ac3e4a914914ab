/* SPDX-License-Identifier: Apache-2.0
 * Windows. The real window is in a single passive epoch (MPI_Win_lock_all) for all its life and is
 * never locked otherwise. Operations go straight to it. The stand-in implements the program's
 * epochs, so that the real library holds no state of them that a restart would lose, and a
 * checkpoint can interrupt each wait.
 *
 *   fence                         flush, and a barrier of the window's private communicator
 *   post, start, complete, wait   empty messages in that communicator (active.c)
 *   lock, unlock                  a fair reader-writer lock in the target's memory (lock.c) */
#ifndef GCK_MPI_RMA_H
#define GCK_MPI_RMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "shim/mpi/collective/private_comm.h"
#include "shim/mpi/handles/handle.h"

/* The access epoch of this rank. */
enum gck_mpi_epoch {
	GCK_MPI_EPOCH_NONE,
	GCK_MPI_EPOCH_FENCE,
	GCK_MPI_EPOCH_STARTED,
	GCK_MPI_EPOCH_LOCKED,     /* by MPI_Win_lock: some targets */
	GCK_MPI_EPOCH_LOCKED_ALL,
};

/* The state of a target in this rank's epoch. */
enum gck_mpi_target {
	GCK_MPI_TARGET_NONE,
	GCK_MPI_TARGET_SHARED,   /* this rank holds its lock */
	GCK_MPI_TARGET_EXCLUSIVE,
	GCK_MPI_TARGET_NOCHECK,  /* MPI_MODE_NOCHECK: locked without taking the lock */
	GCK_MPI_TARGET_STARTED,  /* its MPI_Win_post has not arrived yet */
	GCK_MPI_TARGET_POSTED,
};

/* A lock in its target's memory (lock.c). */
struct gck_mpi_lock_words {
	uint64_t next, read, write;
};

/* Memory attached to a dynamic window. */
struct gck_mpi_region {
	void *base;
	MPI_Aint size;
	struct gck_mpi_region *next;
};

struct gck_mpi_shared;

struct gck_mpi_win {
	struct gck_mpi_handle h;
	MPI_Comm comm;              /* private */
	int rank, nranks;
	int flavor, disp_unit;
	void *base;
	MPI_Aint size;
	void *memory;               /* from MPI_Win_allocate; freed with the window */
	struct gck_mpi_shared *shared;
	struct gck_mpi_region *regions;
	MPI_Info info;              /* the program's, without no_locks; never NULL */
	bool no_locks;              /* the program's hint */
	_Atomic bool dirty;         /* operations since the last quiesce */

	enum gck_mpi_epoch epoch;
	bool fence_used;            /* operations since the last fence */
	uint8_t *targets;           /* [nranks] enum gck_mpi_target */
	int nlocked;
	pthread_mutex_t lock;       /* protects epoch, targets and nlocked (threads may lock several
				     * targets), and serialises use of real_locks */
	MPI_Win real_locks;         /* the real window of the locks; NULL: no_locks */
	struct gck_mpi_lock_words *words; /* this rank's */

	/* active.c: the targets of MPI_Win_start, in its order, and the receives of their posts */
	int nstarted, *started;
	MPI_Request *posts;
	/* active.c: for each origin of MPI_Win_post the receive of its completion */
	bool exposed;
	int nexposed;
	MPI_Request *origins;
};

/* The window behind a program's handle; NULL: MPI_WIN_NULL or an invalid handle. */
static inline struct gck_mpi_win *gck_mpi_win_of(MPI_Win win)
{
	struct gck_mpi_handle *h = (void *)win;

	if (!gck_mpi_is(h, GCK_MPI_WIN) || h->flags & GCK_MPI_NULL)
		return NULL;
	return (struct gck_mpi_win *)h;
}

/* Checks before an operation that this rank is in an epoch for the target; may wait for the
 * target's post. Called outside the gate. Returns an MPI error class. */
GCK_MUST_CHECK int gck_mpi_epoch_check(struct gck_mpi_win *w, int target);

/* Waits for the post of a target of MPI_Win_start. Returns an MPI error code. */
GCK_MUST_CHECK int gck_mpi_epoch_await_post(struct gck_mpi_win *w, int target);

/* Acquire and release the lock of a target, or the locks of all for reading; acquiring waits.
 * Called outside the gate. Return an MPI error code. */
GCK_MUST_CHECK int gck_mpi_lock_acquire(struct gck_mpi_win *w, int target, bool exclusive,
					const char *function);
GCK_MUST_CHECK int gck_mpi_lock_acquire_all(struct gck_mpi_win *w, const char *function);
GCK_MUST_CHECK int gck_mpi_lock_release(struct gck_mpi_win *w, int target, bool exclusive,
					const char *function);

/* Makes the real windows of w, for a new window or after a restart. Collective; called in the gate
 * or in the MPI thread. Returns an MPI error class or code. */
GCK_MUST_CHECK int gck_mpi_win_make_real(struct gck_mpi_win *w);

#endif
