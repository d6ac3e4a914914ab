/* SPDX-License-Identifier: Apache-2.0
 * What an MPI call does when it failed. The real library's objects all have MPI_ERRORS_RETURN;
 * what the program asked for is known here only, so that nothing of it is lost in a restart. */
#ifndef GCK_MPI_ERROR_H
#define GCK_MPI_ERROR_H

#include <mpi.h>

struct gck_mpi_handle;

/* The error path of gck_mpi_error. */
int gck_mpi_error_raise(const void *handle, int rc, const char *function);

/* Ends a call that names `handle`: a communicator, window or file of ours; anything else, NULL
 * included, means MPI_COMM_WORLD. rc is what the real library (or we) found, function "MPI_Send".
 * MPI_SUCCESS costs a compare; else the program's handler runs (which may not return) and rc is
 * given back for the call to return. Call it after gck_mpi_leave: handlers may wait. */
static inline int gck_mpi_error(const void *handle, int rc, const char *function)
{
	if (__builtin_expect(rc == MPI_SUCCESS, 1))
		return rc;
	return gck_mpi_error_raise(handle, rc, function);
}

/* What MPI::ERRORS_THROW_EXCEPTIONS does; until it is set that does nothing. */
void gck_mpi_error_set_throw(void (*fn)(struct gck_mpi_handle *h, int rc, const char *function));

/* What MPI_LASTUSEDCODE says. */
int gck_mpi_last_code(void);

#endif
