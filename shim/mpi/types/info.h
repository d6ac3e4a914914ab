/* SPDX-License-Identifier: Apache-2.0
 * Info objects: a real one stands behind each, so that Open MPI's own rules hold. */
#ifndef GCK_MPI_INFO_H
#define GCK_MPI_INFO_H

#include "shim/mpi/handles/handle.h"

/* The real one for a call. */
#define GCK_MPI_REAL_INFO(h) ((MPI_Info)gck_mpi_real_handle(h, GCK_MPI_INFO))

/* A new info of ours for one that the real library returned, and that it owns from now on;
 * MPI_INFO_NULL for the null one. NULL: no memory. In the gate. */
MPI_Info gck_mpi_info_of_real(MPI_Info real);

#endif
