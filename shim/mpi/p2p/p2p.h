/* SPDX-License-Identifier: Apache-2.0
 * Sends and receives, as the functions that make them share them. All in the gate. */
#ifndef GCK_MPI_P2P_H
#define GCK_MPI_P2P_H

#include "common/base/error.h"
#include "shim/mpi/p2p/request_pool.h"

/* A place that says what is to be received; active once it is posted. NULL: no memory. */
static inline struct gck_mpi_request *gck_mpi_recv_new(void *buf, int count, MPI_Datatype type,
						       int source, int tag, MPI_Comm comm)
{
	struct gck_mpi_request *r = gck_mpi_request_new(GCK_MPI_REQUEST_RECV);

	if (__builtin_expect(!r, 0))
		return NULL;
	r->buf = buf;
	r->count = count;
	r->type = type;
	r->peer = source;
	r->tag = tag;
	r->comm = comm;
	return r;
}

/* What the real library says of a receive with these arguments. Asked before a message is taken
 * out of a queue for one: it stays there if there is anything wrong. */
int gck_mpi_recv_check(void *buf, int count, MPI_Datatype type, int tag, MPI_Comm comm);

/* The same, in the real library in any case: after a restart, with its order kept. */
int gck_mpi_recv_post_real(struct gck_mpi_request *r);

/* The request outlives its call, and the program may free the type meanwhile. */
void gck_mpi_request_ref_type(struct gck_mpi_request *r);

/* A real persistent request for ours, inactive. */
int gck_mpi_persistent_make(struct gck_mpi_request *r);

/* The attached buffer is known to a fresh library. */
int gck_mpi_buffer_again(struct gck_error *err);

/* One look at all of them. */
struct gck_mpi_polled {
	int open;  /* neither null nor inactive */
	int first; /* the first that is complete; -1: none */
};

struct gck_mpi_polled gck_mpi_request_poll_all(int n, const MPI_Request *requests);

/* Generalized requests: what their owner says. */
int gck_mpi_general_query(struct gck_mpi_request *r);
int gck_mpi_general_free(struct gck_mpi_request *r);
int gck_mpi_general_cancel(struct gck_mpi_request *r);

#endif
