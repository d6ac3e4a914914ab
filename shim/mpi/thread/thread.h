/* SPDX-License-Identifier: Apache-2.0
 * The MPI thread's work: it serves the agent or, in tests, makes checkpoints without one. */
#ifndef GCK_MPI_THREAD_H
#define GCK_MPI_THREAD_H

#include "shim/mpi/base/mpi_thread.h"

/* Serves the agent until the thread must stop; reconnects to an agent that was restarted. */
void gck_mpi_serve_agent(struct gck_mpi_thread_state *k);

/* Returns the folder that GPUCKPT_MPI_TEST names; NULL: no test. */
const char *gck_mpi_test_folder(void);

/* The thread's work where GPUCKPT_MPI_TEST is set. */
void gck_mpi_test_serve(struct gck_mpi_thread_state *k);

/* Tests (GPUCKPT_MPI_TEST): makes a checkpoint and restart in place. All ranks call it, not inside
 * an MPI call. Returns 0, or -1 with the reason on stderr. */
int gck_mpi_test_cycle(void);

#endif
