/* SPDX-License-Identifier: Apache-2.0
 * Non-blocking and persistent collectives. The arguments of each are kept with its request, so that
 * it is issued again after a restart, unless it was finished before the checkpoint; the collective
 * clock decides which are. All functions run in the gate. */
#ifndef GCK_MPI_NONBLOCKING_H
#define GCK_MPI_NONBLOCKING_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct gck_mpi_clock;
struct gck_mpi_retained;
struct gck_mpi_request;

/* The head of a generated struct of arguments. */
struct gck_mpi_nonblocking {
	MPI_Comm comm;
	MPI_Info info; /* of a persistent collective */
	struct gck_mpi_clock *clock;
	uint64_t number;
	/* Call the real function with the arguments and their current real handles. */
	int (*issue)(struct gck_mpi_nonblocking *n, MPI_Request *real);
	/* Called on completion; may be NULL. */
	void (*completed)(struct gck_mpi_nonblocking *n);
	struct gck_mpi_retained *retained;
	bool failed;    /* no memory to keep an argument: begin returns the error */
	bool exclusive; /* issue.h */
	struct gck_mpi_request *next_postponed;
};

/* Makes one; size is that of the whole struct. NULL: no memory. */
GCK_MUST_CHECK void *
gck_mpi_nonblocking_new(size_t size, MPI_Comm comm,
			int (*issue)(struct gck_mpi_nonblocking *n, MPI_Request *real));

/* Keep arguments that must outlast the call: an array (NULL for NULL, and for length -1, that of an
 * argument that is not significant), a type, an operation, an info, an array of types. */
void *gck_mpi_retain(struct gck_mpi_nonblocking *n, const void *array, long length, size_t size);
MPI_Datatype gck_mpi_retain_type(struct gck_mpi_nonblocking *n, MPI_Datatype type);
MPI_Op gck_mpi_retain_op(struct gck_mpi_nonblocking *n, MPI_Op op);
MPI_Info gck_mpi_retain_info(struct gck_mpi_nonblocking *n, MPI_Info info); /* a copy */
MPI_Datatype *gck_mpi_retain_types(struct gck_mpi_nonblocking *n, const MPI_Datatype *types,
				   long length);

/* Returns the real handles of kept types in an array with the same lifetime. NULL for NULL. */
GCK_MUST_CHECK MPI_Datatype *gck_mpi_retain_reals(struct gck_mpi_nonblocking *n,
						  const MPI_Datatype *types);

/* retain_input records where input lies that the collective overwrites with its result
 * (MPI_IN_PLACE). inputs_take copies it when the collective starts; inputs_put_back restores it
 * before the collective starts again. They return MPI error codes. */
void gck_mpi_retain_input(struct gck_mpi_nonblocking *n, void *buf, long count, MPI_Datatype type);
GCK_MUST_CHECK int gck_mpi_inputs_take(struct gck_mpi_nonblocking *n);
GCK_MUST_CHECK int gck_mpi_inputs_put_back(struct gck_mpi_nonblocking *n);

/* Frees it with all kept arguments. */
void gck_mpi_nonblocking_free(struct gck_mpi_nonblocking *n);

/* Starts it: tick, issue, request. n may be NULL (no memory). Returns an MPI error code; on failure
 * n is freed. */
GCK_MUST_CHECK int gck_mpi_nonblocking_begin(struct gck_mpi_nonblocking *n, MPI_Request *request);

/* The `completed` function of every collective's request. The real request is used up, so from now
 * on the other ranks must finish theirs, whether or not this program asks for it. */
void gck_mpi_nonblocking_completed(struct gck_mpi_request *r);

/* Counts the collectives to finish before the checkpoint; *active, unless NULL: all under way. */
size_t gck_mpi_nonblocking_open(size_t *active);

/* Makes progress on the collectives to finish. */
int gck_mpi_nonblocking_step(struct gck_error *err);

#endif
