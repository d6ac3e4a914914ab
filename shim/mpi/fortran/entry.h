/* SPDX-License-Identifier: Apache-2.0
 * What libgpuckpt-mpi-fortran.so needs of libgpuckpt-mpi.so besides MPI: callbacks and attributes in
 * Fortran's convention. They return MPI error codes; the program's error handler has been called. */
#ifndef GCK_MPI_FORTRAN_ENTRY_H
#define GCK_MPI_FORTRAN_ENTRY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef void gck_mpi_fortran_fn(void);

int gck_mpi_fortran_op(gck_mpi_fortran_fn *function, int commute, MPI_Op *op);

/* kind: enum gck_mpi_kind (handle.h). aint: of MPI-2, with addresses for INTEGERs. */
int gck_mpi_fortran_errhandler(int kind, gck_mpi_fortran_fn *function, MPI_Errhandler *errhandler);
int gck_mpi_fortran_keyval(int kind, bool aint, gck_mpi_fortran_fn *copy, gck_mpi_fortran_fn *delete,
			   intptr_t extra, int *number);
int gck_mpi_fortran_attribute_set(int kind, bool aint, void *handle, int number, intptr_t value);
int gck_mpi_fortran_attribute_get(int kind, bool aint, void *handle, int number, intptr_t *value,
				  int *flag);

#endif
