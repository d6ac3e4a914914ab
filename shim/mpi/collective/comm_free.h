/* SPDX-License-Identifier: Apache-2.0
 * The end of communicators. Other ranks may still need this rank in a communicator that its program
 * has freed, also at a restart. So it lives on, with its clock, until no request of this rank uses
 * it; then the rank starts a non-blocking barrier on it, its goodbye. A rank that finds the barrier
 * complete, started by all ranks, drops the communicator. At a checkpoint all or none of its ranks
 * therefore have it, and a rank's memory does not grow with the communicators ever made. */
#ifndef GCK_MPI_COMM_FREE_H
#define GCK_MPI_COMM_FREE_H

#include "shim/mpi/comm/comm.h"

/* Lets go of a communicator that the program has freed. In the gate. */
void gck_mpi_comm_let_go(struct gck_mpi_comm *c);

/* True if a request or matched message of this rank uses c, also a persistent request, and one that
 * is complete but not yet collected by the program. */
bool gck_mpi_comm_in_use(const struct gck_mpi_comm *c);

/* Makes progress on freeing communicators that were let go. In the gate or in the MPI thread. */
void gck_mpi_comm_reap(void);

/* The same, if enough calls were made since the last time. */
void gck_mpi_comm_tend(void);

#endif
