/* SPDX-License-Identifier: Apache-2.0
 * Between errhandler.c, which keeps error handlers, and error.c, which calls them. */
#ifndef GCK_MPI_ERRHANDLER_MADE_H
#define GCK_MPI_ERRHANDLER_MADE_H

#include <stdatomic.h>

#include "shim/mpi/handles/errhandler.h"

struct gck_mpi_errhandler;

/* Calls the program's handler for an error rc that `function` has found on h. */
typedef void gck_mpi_errhandler_invoke(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h,
				       int rc, const char *function);

/* One that the program made; predefined ones are only a handle. */
struct gck_mpi_errhandler {
	struct gck_mpi_handle h;
	enum gck_mpi_kind of;
	enum gck_mpi_language language;
	void (*function)(void); /* of the kind's and language's own type */
	gck_mpi_errhandler_invoke *invoke; /* of language GCK_MPI_CXX; NULL in others */
	atomic_uint references;
};

/* The handler of a communicator, window or file, with a reference for the caller. */
MPI_Errhandler gck_mpi_errhandler_of(void *handle);

#endif
