/* SPDX-License-Identifier: Apache-2.0
 * Polling many requests: the real library tests them in batches, so that it makes progress once for
 * many of them. All functions run in the gate. */
#ifndef GCK_MPI_REQUEST_BATCH_H
#define GCK_MPI_REQUEST_BATCH_H

#include "shim/mpi/p2p/request.h"

enum { GCK_MPI_BATCH_SIZE = 64 };

struct gck_mpi_request_batch {
	int n; /* begins as 0 */
	struct gck_mpi_request *ours[GCK_MPI_BATCH_SIZE];
	MPI_Request real[GCK_MPI_BATCH_SIZE];
};

/* Polls an active request, now or with later ones. */
void gck_mpi_request_batch_poll(struct gck_mpi_request_batch *b, struct gck_mpi_request *r);

/* Polls those that were left for later. */
void gck_mpi_request_batch_end(struct gck_mpi_request_batch *b);

#endif
