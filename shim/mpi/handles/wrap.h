/* SPDX-License-Identifier: Apache-2.0
 * What generated wrappers do with handles that a call writes, and with arrays of handles. Called
 * between gck_mpi_enter and gck_mpi_leave. */
#ifndef GCK_MPI_WRAP_H
#define GCK_MPI_WRAP_H

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

/* The stand-in's handle for a real one that a call made: a predefined or a new one. NULL: no
 * memory. */
GCK_MUST_CHECK void *gck_mpi_wrap(enum gck_mpi_kind kind, void *real);

/* Stores the handle that the call wrote in *handle; without memory *rc is MPI_ERR_NO_MEM. */
#define gck_mpi_real_out(handle, real, kind, rc) \
	gck_mpi_real_out_((void **)(handle), real, kind, &(rc))
void gck_mpi_real_out_(void **handle, void *real, enum gck_mpi_kind kind, int *rc);

/* For a handle that the call reads and writes: *handle follows the real one. If that became null,
 * *handle is freed and set to the null handle of its kind. */
#define gck_mpi_real_in(handle, kind) \
	((handle) ? gck_mpi_real_handle(*(handle), kind) : gck_mpi_real_null[kind])
#define gck_mpi_real_back(handle, real, kind, rc) gck_mpi_real_back_((void **)(handle), real, kind)
void gck_mpi_real_back_(void **handle, void *real, enum gck_mpi_kind kind);

/* The real handles for an array of the stand-in's. */
struct gck_mpi_array {
	void **v, *inline_v[32];
	long n;
	enum gck_mpi_kind kind;
};

/* Fills an array with the real handles of n handles (handles NULL: null handles, for the call to
 * overwrite). NULL: no memory; the real library reports that as a missing array. */
GCK_MUST_CHECK void *gck_mpi_array_in(struct gck_mpi_array *a, const void *handles, long n,
				      enum gck_mpi_kind kind);
void gck_mpi_array_free(struct gck_mpi_array *a);

/* Lengths of arrays that depend on a communicator; 0 on failure. Called in the gate. */
long gck_mpi_peers(MPI_Comm comm);     /* the size, of the remote group if there is one */
long gck_mpi_size(MPI_Comm comm);
long gck_mpi_indegree(MPI_Comm comm);
long gck_mpi_outdegree(MPI_Comm comm);

#endif
