/* SPDX-License-Identifier: Apache-2.0
 * Matched messages, which a program holds between MPI_Mprobe and MPI_Mrecv. */
#ifndef GCK_MPI_MESSAGE_H
#define GCK_MPI_MESSAGE_H

#include "shim/mpi/handles/handle.h"
#include "shim/mpi/p2p/flushed.h"

/* In the MPI thread: reads matched messages that the real library still has into our memory. Adds
 * the number of those that have not arrived yet to *arriving. */
GCK_MUST_CHECK int gck_mpi_messages_take_in(size_t *arriving, struct gck_error *err);

#endif
