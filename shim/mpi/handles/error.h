/* SPDX-License-Identifier: Apache-2.0
 * What an MPI call does when it fails. All objects of the real library have MPI_ERRORS_RETURN. Only
 * the stand-in knows the program's handlers, so a restart does not lose them. */
#ifndef GCK_MPI_ERROR_H
#define GCK_MPI_ERROR_H

#include <mpi.h>

struct gck_mpi_handle;

/* The error path of gck_mpi_error: calls the handler and returns rc. */
int gck_mpi_error_raise(const void *handle, int rc, const char *function);

/* Ends an MPI call on `handle`: a communicator, window or file of the stand-in; anything else, NULL
 * included, means MPI_COMM_WORLD. rc is the call's result, function its name ("MPI_Send").
 * MPI_SUCCESS costs one comparison. For an error the program's handler runs (it may not return) and
 * rc is returned. Called after gck_mpi_leave, because handlers may wait. */
static inline int gck_mpi_error(const void *handle, int rc, const char *function)
{
	if (__builtin_expect(rc == MPI_SUCCESS, 1))
		return rc;
	return gck_mpi_error_raise(handle, rc, function);
}

/* Sets what MPI::ERRORS_THROW_EXCEPTIONS does; before the call it does nothing. */
void gck_mpi_error_set_throw(void (*fn)(struct gck_mpi_handle *h, int rc, const char *function));

/* The value of MPI_LASTUSEDCODE. */
int gck_mpi_last_code(void);

#endif
