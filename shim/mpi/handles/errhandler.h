/* SPDX-License-Identifier: Apache-2.0
 * Error handlers: wholly ours. A made one lives until nobody refers to it: the program's handles
 * (one for each time that it was created or got) and the objects that it is attached to. */
#ifndef GCK_MPI_ERRHANDLER_H
#define GCK_MPI_ERRHANDLER_H

#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"
#include <stdatomic.h>

/* A new one for objects of a kind (COMM, WIN, FILE); NULL: no memory. */
MPI_Errhandler gck_mpi_errhandler_new(enum gck_mpi_kind of, enum gck_mpi_language language,
				      void (*function)(void));

void gck_mpi_errhandler_release(MPI_Errhandler errhandler);

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

/* A new communicator has the handler of the one that it was made from. */
void gck_mpi_errhandler_inherit(void *child, const void *parent);

#endif
