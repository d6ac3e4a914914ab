/* SPDX-License-Identifier: Apache-2.0
 * Error handlers and operations of Open MPI's C++ bindings. */
#ifndef GCK_MPI_CXX_H
#define GCK_MPI_CXX_H

#include "shim/mpi/handles/errhandler_made.h"

/* MPI::ERRORS_THROW_EXCEPTIONS: not in mpi.h. */
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_throw_exceptions;

/* Calls an error handler of language GCK_MPI_CXX. */
void gck_mpi_cxx_handle(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h, int rc,
			const char *function);

/* What MPI::ERRORS_THROW_EXCEPTIONS does; nothing if no C++ bindings are there. */
void gck_mpi_cxx_throw(struct gck_mpi_handle *h, int rc, const char *function);

#endif
