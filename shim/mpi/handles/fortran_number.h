/* SPDX-License-Identifier: Apache-2.0
 * Fortran's INTEGER handles: one number for each handle of a kind. Predefined handles have the
 * numbers of mpif.h. Others get the lowest free number at the first request and keep it for life.
 * */
#ifndef GCK_MPI_FORTRAN_NUMBER_H
#define GCK_MPI_FORTRAN_NUMBER_H

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

/* Returns the handle's number, assigned now if it has none; -1: not a handle of the kind, or no
 * memory. */
GCK_MUST_CHECK int gck_mpi_fortran_number(void *handle, enum gck_mpi_kind kind);

/* Frees the handle's number, if it has one. */
void gck_mpi_fortran_free(struct gck_mpi_handle *h);

#endif
