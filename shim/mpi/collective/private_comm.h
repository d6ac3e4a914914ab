/* SPDX-License-Identifier: Apache-2.0
 * A communicator of a window's or file's own: for its collective calls, its clock, its group, and
 * the messages between its ranks. The program never sees it; a restart makes it again like
 * any other. Its hints are kept with it, for then. */
#ifndef GCK_MPI_PRIVATE_COMM_H
#define GCK_MPI_PRIVATE_COMM_H

#include <stddef.h>

#include "shim/mpi/comm/comm.h"

/* Collective over comm, an intracommunicator; outside the gate, in the MPI function named. No
 * error handler is called, neither here nor by calls on the new one. An MPI error code. */
int gck_mpi_private_comm(MPI_Comm comm, MPI_Comm *own, const char *function);

/* Its id: the same in all its ranks, and in one order for all objects that they share. */
static inline uint64_t gck_mpi_private_id(MPI_Comm own)
{
	return gck_mpi_comm_of(own)->clock.id;
}

/* After a restart: make all objects of a kind (windows, files) again by fn, collectively over
 * MPI_COMM_WORLD: one after the other, in the order of their communicators' ids. Not several at a
 * time, even of different ranks: osc/rdma names its files in /dev/shm by numbers that disjoint
 * communicators have in common. own_of gives an object's communicator. */
int gck_mpi_private_each(enum gck_mpi_kind kind, MPI_Comm (*own_of)(const void *),
		     int (*fn)(void *object, struct gck_error *err), struct gck_error *err);

/* Hints that the program gave at the making (MPI_INFO_NULL: none), and later. An MPI error code. */
int gck_mpi_private_info(MPI_Info given, MPI_Info *own);
int gck_mpi_private_info_merge(MPI_Info own, MPI_Info given);

#endif
