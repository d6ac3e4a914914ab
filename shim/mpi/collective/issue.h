/* SPDX-License-Identifier: Apache-2.0
 * How non-blocking collectives are issued to the real library: at once, or when it is safe.
 *
 * In Open MPI 4.1 a pending MPI_Comm_idup makes non-blocking collectives of its own on the
 * communicator that it duplicates, each when its rank gets there. What else is started on that
 * communicator may come before them in one rank and after them in another; then none ever ends, or
 * their data is mixed up. That happens to several MPI_Comm_idups at once as soon as the ranks'
 * numbers of free communicators differ. With the stand-in they do, because a communicator that was
 * freed lives on for a while (comm_free.h). So an MPI_Comm_idup is exclusive: while the real
 * library makes one, nothing else is started on its communicator. Non-blocking collectives are
 * postponed; the poll that finds the MPI_Comm_idup complete issues them. Calls that make
 * communicators wait. */
#ifndef GCK_MPI_ISSUE_H
#define GCK_MPI_ISSUE_H

#include <mpi.h>

#include "common/base/error.h"
#include "shim/mpi/collective/nonblocking.h"

/* Makes the request of a collective that has its number, and issues or postpones it. Returns an MPI
 * error code; on failure n is freed. An error of one that is postponed is its request's. */
GCK_MUST_CHECK int gck_mpi_nonblocking_issue(struct gck_mpi_nonblocking *n, MPI_Request *request);

/* Called by `completed` of an exclusive collective: issues what was postponed. */
void gck_mpi_nonblocking_release(struct gck_mpi_nonblocking *n);

/* Waits until no collective on the communicator is exclusive. In the gate, before the tick of a
 * call that makes a communicator, because it parks. */
void gck_mpi_comm_await(MPI_Comm comm);

#endif
