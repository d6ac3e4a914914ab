/* SPDX-License-Identifier: Apache-2.0
 * Matched messages, which a program holds between MPI_Mprobe and MPI_Mrecv. */
#ifndef GCK_MPI_MESSAGE_H
#define GCK_MPI_MESSAGE_H

#include "shim/mpi/handles/handle.h"
#include "shim/mpi/p2p/flushed.h"

/* Makes a message that the real library has matched (real) or that was flushed (from); the other
 * one is NULL. Returns NULL if there is no memory. */
GCK_MUST_CHECK MPI_Message gck_mpi_message_new(MPI_Comm comm, MPI_Message real,
					       struct gck_mpi_flushed *from,
					       const MPI_Status *status);

/* In the MPI thread: reads matched messages that the real library still has into our memory. Adds
 * the number of those that have not arrived yet to *arriving. */
GCK_MUST_CHECK int gck_mpi_messages_take_in(size_t *arriving, struct gck_error *err);

#endif
