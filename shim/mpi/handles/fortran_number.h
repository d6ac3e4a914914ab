/* SPDX-License-Identifier: Apache-2.0
 * Fortran's INTEGER handles: a number per handle and kind. Predefined ones have mpif.h's; others
 * get the lowest free one when they are first asked for it, and keep it for life. */
#ifndef GCK_MPI_FORTRAN_NUMBER_H
#define GCK_MPI_FORTRAN_NUMBER_H

#include "shim/mpi/handles/handle.h"

/* The handle's number, given now if it has none; -1: not a handle of the kind, or no memory. */
int gck_mpi_fortran_number(void *handle, enum gck_mpi_kind kind);

/* Its number may be given to another (nothing if it has none). */
void gck_mpi_fortran_free(struct gck_mpi_handle *h);

#endif
