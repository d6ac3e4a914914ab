/* SPDX-License-Identifier: Apache-2.0
 * What the functions for sends and receives share. All run in the gate. */
#ifndef GCK_MPI_P2P_H
#define GCK_MPI_P2P_H

#include "common/base/error.h"
#include "shim/mpi/p2p/request_pool.h"

/* Makes a request for a receive with these arguments, not posted. NULL: no memory. */
GCK_MUST_CHECK static inline struct gck_mpi_request *
gck_mpi_recv_new(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
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

/* Returns the real library's error code for a receive with these arguments. Called before a flushed
 * message is taken out of its queue, where it stays if the arguments are wrong. */
GCK_MUST_CHECK int gck_mpi_recv_check(void *buf, int count, MPI_Datatype type, int tag,
				      MPI_Comm comm);

/* Posts the receive in the real library, past the flushed messages; its order is unchanged. */
GCK_MUST_CHECK int gck_mpi_recv_post_real(struct gck_mpi_request *r);

/* References the type of a request that outlives its call: the program may free the type. */
void gck_mpi_request_ref_type(struct gck_mpi_request *r);

/* Makes the real persistent request for r, inactive. */
GCK_MUST_CHECK int gck_mpi_persistent_make(struct gck_mpi_request *r);

/* Attaches MPI_Bsend's buffer again in a fresh library. */
GCK_MUST_CHECK int gck_mpi_buffer_reattach(struct gck_error *err);

#endif
