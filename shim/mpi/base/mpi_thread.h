/* SPDX-License-Identifier: Apache-2.0
 * The MPI thread: one per rank, an ordinary pthread with all signals blocked, from the load of the
 * real library to the process's end: before MPI_Init and after MPI_Finalize, too, that library has
 * memory, descriptors and threads which no image may hold. It serves a link of its own to the agent
 * (shim/link.h, verbs 32 to 47): quiesce, resume, able; and after a restart it brings MPI back. */
#ifndef GCK_MPI_BASE_THREAD_H
#define GCK_MPI_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "shim/inside/link.h"
#include "shim/namespace/state.h"

/* Read by the agent and the capture. gck_mpi_ns_load keeps left_out up to date. */
extern struct gck_mpi_state gck_mpi_state;

struct gck_mpi_thread_state;

/* What the thread does, given at its start. */
struct gck_mpi_thread_work {
	bool (*wanted)(void); /* is there work in a process that is no rank of a checkpointed step? */
	void (*run)(struct gck_mpi_thread_state *k); /* until gck_mpi_thread_stopping */
};

/* The real library was just loaded: make the thread. In a process that is no rank of a checkpointed
 * step nothing is made. */
int gck_mpi_thread_start(const struct gck_mpi_thread_work *work, struct gck_error *err);

/* Where the program is with MPI. Changed inside the gate only. */
enum gck_mpi_stage {
	GCK_MPI_OUTSIDE,  /* before MPI_Init, or past MPI_Finalize: nothing is owed to other ranks */
	GCK_MPI_STARTING, /* in MPI_Init */
	GCK_MPI_INSIDE,
};

void gck_mpi_thread_starting(void);
void gck_mpi_thread_ready(int rank, int size); /* the real MPI_Init is over */
void gck_mpi_thread_outside(void);             /* the real MPI_Finalize is, or MPI_Init failed */

/* As MPI_Initialized and MPI_Finalized tell it. */
bool gck_mpi_initialized(void);
bool gck_mpi_finalized(void);
void gck_mpi_set_initialized(int (*init_again)(struct gck_error *err)); /* for gck_mpi_init_again */
void gck_mpi_set_finalized(void);

/* In the MPI thread, gate closed, after a fresh copy of the library was loaded and bound:
 * initialise it at the level of the program's own call. What the program made is for the parts to
 * rebuild. */
int gck_mpi_init_again(struct gck_error *err);

/* Between MPI_Init and MPI_Finalize: may other functions be called? */
bool gck_mpi_running(void);

/* Is a thread inside the real MPI_Finalize, or was it? It waits there for other ranks, which
 * cannot get further while their gates are closed. */
bool gck_mpi_leaving(void);
void gck_mpi_set_leaving(bool leaving);

/* ---- between the thread's own files --------------------------------------------------------- */

struct gck_mpi_thread_state {
	pthread_mutex_t lock;    /* for what follows */
	pthread_cond_t changed;
	pthread_t thread;
	bool runs, stopping;
	enum gck_mpi_stage stage;
	bool told;               /* the agent knows the stage, and of PMIx */
	int rank, size;          /* in MPI_COMM_WORLD, once inside it */
	/* the thread's own */
	const struct gck_mpi_thread_work *work;
	struct gck_inside_link link;
	int64_t progress_until_ns;   /* help.c */
	uint32_t restarts;       /* as seen last */
	bool restoring;          /* out of an image, and MPI is not back */
	struct gck_error lost;   /* why it never will be; code 0: it may */
};

bool gck_mpi_thread_stopping(struct gck_mpi_thread_state *k);

/* The stage; waits up to ms for the end of MPI_Init. */
enum gck_mpi_stage gck_mpi_thread_stage(struct gck_mpi_thread_state *k, int ms);

/* Does the agent know it, and set that. */
bool gck_mpi_thread_told(struct gck_mpi_thread_state *k);
void gck_mpi_thread_tell(struct gck_mpi_thread_state *k, bool told);

/* From now on exit() waits for the thread before anything of the real library is ended: it may be
 * in it, or be about to discard a dead copy, whose destructors must not run. Before main() it
 * would be too early for that: the loader's turn comes before what was registered then. */
int gck_mpi_thread_stops_at_exit(struct gck_error *err);

/* Wait ms, or until the thread is to stop. */
void gck_mpi_thread_pause(struct gck_mpi_thread_state *k, int ms);

/* The process has become another one, out of an image. */
bool gck_mpi_thread_restored(const struct gck_mpi_thread_state *k);

#endif
