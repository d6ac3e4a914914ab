/* SPDX-License-Identifier: Apache-2.0
 * Conversion of Fortran's values to C's, for generated and handwritten bindings. Returned memory is
 * from malloc, for the caller to free; without memory the functions abort. */
#ifndef GCK_MPI_FORTRAN_H
#define GCK_MPI_FORTRAN_H

/* mpi.h makes macros of some names otherwise */
#define OMPI_COMPILING_FORTRAN_WRAPPERS 1
#include <mpi.h>
#include <mpi-ext.h> /* needs mpi.h before it */
#include <stdbool.h>
#include <stdlib.h>
#include <stdint.h>

#define GCK_F __attribute__((visibility("default")))

/* A buffer. MPI_BOTTOM and MPI_IN_PLACE are variables in Fortran, recognised by their addresses; so
 * are the special values of the next three. */
void *gck_f_choice(char *buffer);
MPI_Status *gck_f_status(MPI_Fint *status);
MPI_Status *gck_f_statuses(MPI_Fint *statuses);
int *gck_f_weights(MPI_Fint *weights);

/* Strings: to C without trailing blanks (both: without leading ones too), to Fortran with them. */
char *gck_f_string(const char *text, int length, bool both);
void gck_f_string_out(char *to, int length, const char *text);
char *gck_f_buffer(int bytes);

MPI_Aint *gck_f_aints(const MPI_Fint *v, int n);

MPI_Request *gck_f_requests(const MPI_Fint *v, int n);
void gck_f_requests_back(MPI_Fint *v, const MPI_Request *c, int n);
MPI_Datatype *gck_f_types(const MPI_Fint *v, int n);

/* Lengths of arrays that depend on a communicator; 0 on failure. */
int gck_f_peers(MPI_Fint comm);
int gck_f_indegree(MPI_Fint comm);
int gck_f_outdegree(MPI_Fint comm);

typedef void gck_mpi_fortran_fn(void);

int gck_mpi_fortran_op(gck_mpi_fortran_fn *function, int commute, MPI_Op *op);

/* In libgpuckpt-mpi.so: implement the MPI functions for Fortran callbacks and attributes; return an
 * MPI error code. kind is an enum gck_mpi_kind (handle.h). aint: the functions of MPI-2, whose
 * attributes are addresses instead of INTEGERs. */
int gck_mpi_fortran_errhandler(int kind, gck_mpi_fortran_fn *function, MPI_Errhandler *errhandler);
int gck_mpi_fortran_keyval(int kind, bool aint, gck_mpi_fortran_fn *copy,
			   gck_mpi_fortran_fn *delete, intptr_t extra, int *number);
int gck_mpi_fortran_attribute_set(int kind, bool aint, void *handle, int number, intptr_t value);
int gck_mpi_fortran_attribute_get(int kind, bool aint, void *handle, int number, intptr_t *value,
				  int *flag);

#endif
