/* SPDX-License-Identifier: Apache-2.0
 * The MPI thread, one per rank: an ordinary pthread with all signals blocked. It lives from the
 * load of the real library to the process's end, because that library has memory, descriptors and
 * threads that no image may hold, also before MPI_Init and after MPI_Finalize. It serves its own
 * link to the agent (shim/link.h, GCK_LINK_MPI_…: quiesce, obstacles), and rebuilds MPI after a
 * restart. */
#ifndef GCK_MPI_BASE_THREAD_H
#define GCK_MPI_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "shim/inside/link.h"
#include "shim/mpi/base/state.h"

/* Read by the agent and the capture. gck_namespace_load updates exclusions. */
extern struct gck_mpi_state gck_mpi_state;

struct gck_mpi_thread_state;

/* The thread's work, passed at its start. */
struct gck_mpi_thread_work {
	bool (*runs_without_step)(void); /* needed also outside the ranks of a checkpointed step? */
	void (*run)(struct gck_mpi_thread_state *k); /* returns on gck_mpi_thread_stopping */
};

/* Starts the thread after the real library was loaded. Does nothing in a process that is no rank of
 * a checkpointed step, unless work->wanted. */
GCK_MUST_CHECK int gck_mpi_thread_start(const struct gck_mpi_thread_work *work,
					struct gck_error *err);

/* The program's stage of MPI. Changes only inside the gate. */
enum gck_mpi_stage {
	/* before MPI_Init or past MPI_Finalize: no other rank depends on this one */
	GCK_MPI_UNINITIALIZED,
	GCK_MPI_INITIALIZING, /* in MPI_Init */
	GCK_MPI_INITIALIZED,
};

void gck_mpi_thread_initializing(void);
void gck_mpi_thread_initialized(int rank, int size); /* the real MPI_Init has returned */
void gck_mpi_thread_uninitialized(void); /* MPI_Finalize has returned, or MPI_Init failed */

/* The answers of MPI_Initialized and MPI_Finalized. */
bool gck_mpi_initialized(void);
bool gck_mpi_finalized(void);
void gck_mpi_set_initialized(int (*init_again)(struct gck_error *err)); /* for gck_mpi_init_again */
void gck_mpi_set_finalized(void);

/* Initialises a freshly loaded and bound copy of the library at the thread level of the program's
 * own call. Runs in the MPI thread, gate closed. Participants rebuild the program's objects. */
GCK_MUST_CHECK int gck_mpi_init_again(struct gck_error *err);

/* True between MPI_Init and MPI_Finalize, when other MPI functions may be called. */
bool gck_mpi_running(void);

/* True once a thread has entered the real MPI_Finalize. It waits there for other ranks, which make
 * no progress while their gates are closed. */
bool gck_mpi_leaving(void);
void gck_mpi_set_leaving(bool leaving);

/* ---- between the thread's own files --------------------------------------------------------- */

struct gck_mpi_thread_state {
	pthread_mutex_t lock;    /* guards the fields down to size */
	pthread_cond_t changed;
	pthread_t thread;
	bool runs, stopping;
	enum gck_mpi_stage stage;
	bool stage_reported;     /* the agent knows the stage and whether PMIx is usable */
	int rank, size;          /* in MPI_COMM_WORLD, valid after MPI_Init */
	/* used by the thread alone */
	const struct gck_mpi_thread_work *work;
	struct gck_inside_link link;
	int64_t progress_until_ns;   /* quiesce/progress.c */
	uint32_t restarts;       /* count seen last */
	bool restoring;          /* restored from an image, and MPI is not rebuilt yet */
	struct gck_error rebuild_error; /* why the rebuild failed for good; code 0: it did not */
};

bool gck_mpi_thread_stopping(struct gck_mpi_thread_state *k);

/* Returns the stage; waits up to ms for the end of MPI_Init. */
enum gck_mpi_stage gck_mpi_thread_stage(struct gck_mpi_thread_state *k, int ms);

/* Gets and sets whether the agent knows the current stage. */
bool gck_mpi_thread_stage_reported(struct gck_mpi_thread_state *k);
void gck_mpi_thread_set_reported(struct gck_mpi_thread_state *k, bool stage_reported);

/* Whether this process is a task of a step with --gpu-ckpt, or a test of the stand-in. True also if
 * the thread could not be made: its peers do not know that. */
bool gck_mpi_thread_in_step(void);

/* Makes exit() wait for the thread before the real library's destructors run: the thread may be in
 * that library, or about to discard a dead copy, whose destructors must not run. Not to be called
 * before main(): the loader's own exit handler would run before one registered then. */
GCK_MUST_CHECK int gck_mpi_thread_stops_at_exit(struct gck_error *err);

/* Waits ms, or until the thread must stop. */
void gck_mpi_thread_pause(struct gck_mpi_thread_state *k, int ms);

/* True if the process was restored from an image since the thread last looked. */
bool gck_mpi_thread_restored(const struct gck_mpi_thread_state *k);

#endif
