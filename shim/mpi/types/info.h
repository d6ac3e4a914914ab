/* SPDX-License-Identifier: Apache-2.0
 * Info objects. Each has a real one behind it, so that Open MPI's rules for keys apply. */
#ifndef GCK_MPI_INFO_H
#define GCK_MPI_INFO_H

#include "shim/mpi/handles/handle.h"

/* The real info for a call. */
#define GCK_MPI_REAL_INFO(h) ((MPI_Info)gck_mpi_real_handle(h, GCK_MPI_INFO))

/* Makes a handle for an info that the real library returned, and which the handle then owns;
 * MPI_INFO_NULL for the null info. NULL: no memory. Called in the gate. */
MPI_Info gck_mpi_info_of_real(MPI_Info real);

#endif
