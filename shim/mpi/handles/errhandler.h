/* SPDX-License-Identifier: Apache-2.0
 * Error handlers. The stand-in implements them without the real library. One that the program made
 * has a reference for each handle of the program (each creation or get) and for each object that it
 * is attached to; the last release frees it. */
#ifndef GCK_MPI_ERRHANDLER_H
#define GCK_MPI_ERRHANDLER_H

#include "common/base/error.h"
#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"
#include <stdatomic.h>

/* Makes an error handler for objects of a kind (COMM, WIN, FILE), with one reference for the
 * caller; NULL: no memory. */
GCK_MUST_CHECK MPI_Errhandler gck_mpi_errhandler_new(enum gck_mpi_kind of,
						     enum gck_mpi_language language,
						     void (*function)(void));

void gck_mpi_errhandler_release(MPI_Errhandler errhandler);

struct gck_mpi_errhandler;

/* Calls the program's handler for the error rc of `function` on h. */
typedef void gck_mpi_errhandler_invoke(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h,
				       int rc, const char *function);

/* An error handler that the program made. Predefined ones have only the handle. */
struct gck_mpi_errhandler {
	struct gck_mpi_handle h;
	enum gck_mpi_kind of;
	enum gck_mpi_language language;
	void (*function)(void); /* its real type depends on kind and language */
	gck_mpi_errhandler_invoke *invoke; /* language GCK_MPI_CXX only; else NULL */
	atomic_uint references;
};

/* Returns the handler of a communicator, window or file, with a reference for the caller. */
GCK_MUST_CHECK MPI_Errhandler gck_mpi_errhandler_of(void *handle);

/* Gives a new communicator or file the handler of its parent. Without memory it has the default. */
void gck_mpi_errhandler_inherit(void *child, const void *parent);

#endif
