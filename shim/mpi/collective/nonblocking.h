/* SPDX-License-Identifier: Apache-2.0
 * Non-blocking and persistent collectives. All that one needs to be issued is kept with its request,
 * so that after a restart it is issued again, unless it was finished before: which ones are, the
 * collective clock says. All functions: in the gate. */
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
	MPI_Info info; /* of a persistent one */
	struct gck_mpi_clock *clock;
	uint64_t number;
	/* Call the real function with the arguments, real handles read now. */
	int (*issue)(struct gck_mpi_nonblocking *n, MPI_Request *real);
	/* It is complete; may be NULL. */
	void (*completed)(struct gck_mpi_nonblocking *n);
	struct gck_mpi_retained *kept;
	bool failed; /* no memory while arguments were kept: begin says so */
};

/* size: of the whole struct. NULL: no memory. */
void *gck_mpi_nonblocking_new(size_t size, MPI_Comm comm,
			      int (*issue)(struct gck_mpi_nonblocking *n, MPI_Request *real));

/* Arguments that must outlast the call: an array (NULL stays NULL, and length -1 gives NULL: nobody
 * looks at it); a type, an operation, an info, an array of types. */
void *gck_mpi_retain(struct gck_mpi_nonblocking *n, const void *array, long length, size_t size);
MPI_Datatype gck_mpi_retain_type(struct gck_mpi_nonblocking *n, MPI_Datatype type);
MPI_Op gck_mpi_retain_op(struct gck_mpi_nonblocking *n, MPI_Op op);
MPI_Info gck_mpi_retain_info(struct gck_mpi_nonblocking *n, MPI_Info info); /* a copy */
MPI_Datatype *gck_mpi_retain_types(struct gck_mpi_nonblocking *n, const MPI_Datatype *types,
				   long length);

/* The real handles of kept types, in an array that lives as long. NULL for NULL. */
MPI_Datatype *gck_mpi_retain_reals(struct gck_mpi_nonblocking *n, const MPI_Datatype *types);

/* Where input is that the collective overwrites with its result (MPI_IN_PLACE). It is taken when the
 * collective starts, and put back before it starts again. MPI error codes. */
void gck_mpi_retain_input(struct gck_mpi_nonblocking *n, void *buf, long count, MPI_Datatype type);
int gck_mpi_inputs_take(struct gck_mpi_nonblocking *n);
int gck_mpi_inputs_put_back(struct gck_mpi_nonblocking *n);

/* With all that is kept. */
void gck_mpi_nonblocking_free(struct gck_mpi_nonblocking *n);

/* Start it: tick, issue, request. An MPI error code; n (NULL: no memory) is freed then. */
int gck_mpi_nonblocking_begin(struct gck_mpi_nonblocking *n, MPI_Request *request);

/* Of every request of such a collective, `completed`. The real request is used up, so from here on
 * the others must finish theirs as well, whether or not this program asks. */
void gck_mpi_nonblocking_completed(struct gck_mpi_request *r);

/* How many of those under way (*active, unless NULL) are to be finished before the checkpoint. */
size_t gck_mpi_nonblocking_open(size_t *active);

/* Bring these on. */
int gck_mpi_nonblocking_step(struct gck_error *err);

#endif
