/* SPDX-License-Identifier: Apache-2.0
 * The end of communicators. What the program frees it never sees again, but other ranks may need
 * this one's part in it, at a restart too. So it lives on, with its clock, until no request of
 * this rank names it; then the rank starts a non-blocking barrier on it, as a goodbye. A rank that
 * finds the barrier complete (all ranks have started theirs) drops it. At a checkpoint a
 * communicator is therefore known to all of its ranks or to none, and what one rank holds never
 * grows with how many there have been. */
#ifndef GCK_MPI_COMM_FREE_H
#define GCK_MPI_COMM_FREE_H

#include "shim/mpi/comm/comm.h"

/* The program has freed it. In the gate. */
void gck_mpi_comm_let_go(struct gck_mpi_comm *c);

/* Does any request or matched message of this rank name it? Persistent ones count, and those that
 * the program has yet to ask for. */
bool gck_mpi_comm_in_use(const struct gck_mpi_comm *c);

/* Makes progress with freeing all that were let go. Inside the gate, or in the MPI thread. */
void gck_mpi_comm_reap(void);

#endif
