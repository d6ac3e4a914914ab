/* SPDX-License-Identifier: Apache-2.0
 * Batches of requests. */
#include "shim/mpi/p2p/request_batch.h"

#include "shim/mpi/base/function.h"

void gck_mpi_request_batch_end(struct gck_mpi_request_batch *b)
{
	MPI_Status statuses[GCK_MPI_BATCH_SIZE];
	int indices[GCK_MPI_BATCH_SIZE], done = 0, rc;

	if (!b->n)
		return;
	rc = gck_mpi_real.Testsome(b->n, b->real, &done, indices, statuses);
	for (int i = 0; i < done && done != MPI_UNDEFINED; i++) {
		struct gck_mpi_request *r = b->ours[indices[i]];

		r->h.real = b->real[indices[i]];
		r->status = statuses[i];
		gck_mpi_request_arrived(r, rc == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR
								   : MPI_SUCCESS);
	}
	b->n = 0;
}

void gck_mpi_request_batch_poll(struct gck_mpi_request_batch *b, struct gck_mpi_request *r)
{
	if (!gck_mpi_request_in_real(r)) {
		gck_mpi_request_poll(r);
		return;
	}
	b->ours[b->n] = r;
	b->real[b->n++] = r->h.real;
	if (b->n == GCK_MPI_BATCH_SIZE)
		gck_mpi_request_batch_end(b);
}
