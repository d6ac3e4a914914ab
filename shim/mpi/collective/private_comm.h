/* SPDX-License-Identifier: Apache-2.0
 * A private communicator of a window or file: for its collective calls, its clock, its group, and
 * the messages between its ranks. The program never sees it; a restart makes it again like any
 * other. The window's or file's hints are kept for the restart. */
#ifndef GCK_MPI_PRIVATE_COMM_H
#define GCK_MPI_PRIVATE_COMM_H

#include <stddef.h>

#include "shim/mpi/comm/comm.h"

/* Makes a private communicator, collectively over the intracommunicator comm. Called outside the
 * gate, in the MPI function named. Neither this nor calls on *own invoke an error handler. Returns
 * an MPI error code. */
GCK_MUST_CHECK int gck_mpi_private_comm(MPI_Comm comm, MPI_Comm *own, const char *function);

/* Its id, the same in all its ranks. All ranks order the objects that they share by it. */
static inline uint64_t gck_mpi_private_id(MPI_Comm own)
{
	return gck_mpi_comm_of(own)->clock.id;
}

/* After a restart: makes all objects of a kind (windows, files) again by fn, collectively over
 * MPI_COMM_WORLD and one after the other, by their communicators' ids. Even disjoint ranks do not
 * work in parallel: osc/rdma names its files in /dev/shm by numbers that disjoint communicators
 * share. own_of returns an object's communicator. */
GCK_MUST_CHECK int gck_mpi_private_each(enum gck_mpi_kind kind, MPI_Comm (*own_of)(const void *),
					int (*fn)(void *object, struct gck_error *err),
					struct gck_error *err);

/* Copy the hints given at creation (MPI_INFO_NULL: none); merge hints given later. Return an MPI
 * error code. */
GCK_MUST_CHECK int gck_mpi_private_info(MPI_Info hints, MPI_Info *own);
GCK_MUST_CHECK int gck_mpi_private_info_merge(MPI_Info own, MPI_Info hints);

#endif
