/* SPDX-License-Identifier: Apache-2.0
 * Windows. The real window is in one passive epoch (MPI_Win_lock_all) from its making to its end,
 * and never locked otherwise: operations go straight to it, and epochs are our own, so that a
 * restart finds nothing of them in the real library and every wait can be left for a checkpoint.
 *
 *   fence                  flush, and a barrier of the window's own communicator
 *   post, start, complete, wait   empty messages in that communicator (active.c)
 *   lock, unlock           a fair lock for readers and writers, in the target's memory (lock.c) */
#ifndef GCK_MPI_RMA_H
#define GCK_MPI_RMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "shim/mpi/collective/private_comm.h"
#include "shim/mpi/handles/handle.h"

/* The access epoch that this rank is in. */
enum gck_mpi_epoch {
	GCK_MPI_EPOCH_NONE,
	GCK_MPI_EPOCH_FENCE,
	GCK_MPI_EPOCH_STARTED,
	GCK_MPI_EPOCH_LOCKED,     /* some targets */
	GCK_MPI_EPOCH_LOCKED_ALL,
};

/* What a target is to this rank. */
enum gck_mpi_target {
	GCK_MPI_TARGET_NONE,
	GCK_MPI_TARGET_SHARED,   /* locked by it */
	GCK_MPI_TARGET_EXCLUSIVE,
	GCK_MPI_TARGET_NOCHECK,  /* locked without asking */
	GCK_MPI_TARGET_STARTED,  /* its MPI_Win_post has not been seen yet */
	GCK_MPI_TARGET_POSTED,
};

/* A lock as it lies in its target's memory (lock.c). */
struct gck_mpi_lock_words {
	uint64_t next, read, write;
};

/* Memory attached to a dynamic window. */
struct gck_mpi_region {
	void *base;
	MPI_Aint size;
	struct gck_mpi_region *next;
};

struct gck_mpi_shared; /* shared.h */

struct gck_mpi_win {
	struct gck_mpi_handle h;
	MPI_Comm comm;              /* its own */
	int rank, nranks;
	int flavor, disp_unit;
	void *base;
	MPI_Aint size;
	void *memory;               /* of MPI_Win_allocate: to be freed */
	struct gck_mpi_shared *shared;
	struct gck_mpi_region *regions;
	MPI_Info info;              /* as given, without no_locks; never NULL */
	bool no_locks;              /* the program's hint */
	_Atomic bool dirty;         /* operations since the last quiesce */

	enum gck_mpi_epoch epoch;
	bool fence_used;            /* operations since the last fence */
	uint8_t *targets;           /* [nranks] enum gck_mpi_target */
	int nlocked;
	pthread_mutex_t lock;       /* of the three above (threads lock several targets), and the
				     * real window of locks: one of them at a time */
	MPI_Win real_locks;         /* NULL: the program promised none */
	struct gck_mpi_lock_words *words; /* this rank's */

	/* active.c: one for each target of MPI_Win_start, in its order */
	int nstarted, *started;
	MPI_Request *posts;
	/* for each origin of MPI_Win_post: its end, and the message that told it */
	bool exposed;
	int nexposed;
	MPI_Request *origins;
};

/* The program's handle, or NULL if it is none (or MPI_WIN_NULL). */
static inline struct gck_mpi_win *gck_mpi_win_of(MPI_Win win)
{
	struct gck_mpi_handle *h = (void *)win;

	if (!gck_mpi_is(h, GCK_MPI_WIN) || h->flags & GCK_MPI_NULL)
		return NULL;
	return (struct gck_mpi_win *)h;
}

/* Before an operation on a target: is this rank in an epoch for it? May wait for the target's
 * post. Outside the gate. Returns an MPI error class. */
int gck_mpi_epoch_check(struct gck_mpi_win *w, int target);
int gck_mpi_epoch_await_post(struct gck_mpi_win *w, int target); /* active.c */

/* The lock of a target. Outside the gate; acquire waits. */
int gck_mpi_lock_acquire(struct gck_mpi_win *w, int target, bool exclusive, const char *function);
int gck_mpi_lock_acquire_all(struct gck_mpi_win *w, const char *function);
int gck_mpi_lock_release(struct gck_mpi_win *w, int target, bool exclusive, const char *function);

/* Make the real windows behind w, collectively: of a new window, or after a restart. In the gate,
 * or in the MPI thread. An MPI error class or code. */
int gck_mpi_win_make_real(struct gck_mpi_win *w);

#endif
