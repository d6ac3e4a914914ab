/* SPDX-License-Identifier: Apache-2.0
 * What generated wrappers do with handles that are written, and with arrays of handles. All of it
 * between gck_mpi_enter and gck_mpi_leave. */
#ifndef GCK_MPI_WRAP_H
#define GCK_MPI_WRAP_H

#include "shim/mpi/handles/handle.h"

/* Ours for a real handle that a call has made: a predefined one, or a new one. NULL: no memory. */
void *gck_mpi_wrap(enum gck_mpi_kind kind, void *real);

/* *handle is written by the call. */
#define gck_mpi_real_out(handle, real, kind, rc) \
	gck_mpi_real_out_((void **)(handle), real, kind, &(rc))
void gck_mpi_real_out_(void **handle, void *real, enum gck_mpi_kind kind, int *rc);

/* *handle is read, then written: freed and set to the kind's null handle if the real one was. */
#define gck_mpi_real_in(handle, kind) \
	((handle) ? gck_mpi_real_handle(*(handle), kind) : gck_mpi_real_null[kind])
#define gck_mpi_real_back(handle, real, kind, rc) gck_mpi_real_back_((void **)(handle), real, kind)
void gck_mpi_real_back_(void **handle, void *real, enum gck_mpi_kind kind);

/* An array of real handles beside one of ours. */
struct gck_mpi_array {
	void **v, *few[32];
	long n;
	enum gck_mpi_kind kind;
};

/* The real handles of n of ours (handles NULL: room for n that are written). NULL: no memory, or
 * no array; the real library names that as it does a missing array. */
void *gck_mpi_array_in(struct gck_mpi_array *a, const void *handles, long n,
		       enum gck_mpi_kind kind);
void gck_mpi_array_free(struct gck_mpi_array *a);

/* Lengths of arrays that go by a communicator of ours; 0 if it has none. Inside the gate. */
long gck_mpi_peers(MPI_Comm comm);     /* its size, or its remote group's */
long gck_mpi_size(MPI_Comm comm);
long gck_mpi_indegree(MPI_Comm comm);
long gck_mpi_outdegree(MPI_Comm comm);

#endif
