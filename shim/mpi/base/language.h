/* SPDX-License-Identifier: Apache-2.0
 * The language whose conventions a program's function or value follows. */
#ifndef GCK_MPI_LANGUAGE_H
#define GCK_MPI_LANGUAGE_H

enum gck_mpi_language {
	GCK_MPI_C,
	GCK_MPI_CXX,         /* error handlers and operations of the C++ bindings: cxx.h */
	GCK_MPI_FORTRAN,     /* INTEGERs and their addresses */
	GCK_MPI_FORTRAN_AINT /* MPI-2 attributes: INTEGER(KIND=MPI_ADDRESS_KIND) */
};

#endif
