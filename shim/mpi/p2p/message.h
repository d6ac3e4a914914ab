/* SPDX-License-Identifier: Apache-2.0
 * Matched messages: what a program holds between MPI_Mprobe and MPI_Mrecv. */
#ifndef GCK_MPI_MESSAGE_H
#define GCK_MPI_MESSAGE_H

#include "shim/mpi/handles/handle.h"
#include "shim/mpi/p2p/flushed.h"

/* One that the real library has matched, or that was flushed (the other is NULL). NULL: no
 * memory. */
MPI_Message gck_mpi_message_new(MPI_Comm comm, MPI_Message real, struct gck_mpi_flushed *from,
				const MPI_Status *status);

/* The MPI thread: matched messages that the real library still has are read into our memory. *left:
 * how many are not here yet. */
int gck_mpi_messages_take_in(size_t *left, struct gck_error *err);

#endif
