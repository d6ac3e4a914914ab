// SPDX-License-Identifier: Apache-2.0
/* Polling of several requests at once. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request.h"

enum { BATCH_SIZE = 64 };

/* Requests that the real library tests in one call, so that it makes progress once for all. */
struct batch {
	int n;
	struct gck_mpi_request *ours[BATCH_SIZE];
	MPI_Request real[BATCH_SIZE];
};

static void test_batch(struct batch *b)
{
	MPI_Status statuses[BATCH_SIZE];
	int indices[BATCH_SIZE], done = 0, rc;

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

struct gck_mpi_polled gck_mpi_request_poll_all(int n, const MPI_Request *requests)
{
	struct gck_mpi_polled s = { .first = -1 };
	struct batch b;

	for (int i = 0; i < n && s.first < 0; i++) {
		if (!gck_mpi_request_open(requests[i]))
			continue;
		s.open++;
		if (gck_mpi_request_is_complete((struct gck_mpi_request *)requests[i]))
			s.first = i;
	}
	if (!s.open || s.first >= 0)
		return s;
	b.n = 0;
	for (int i = 0; i < n; i++) {
		struct gck_mpi_request *r = (struct gck_mpi_request *)requests[i];

		if (!gck_mpi_request_open(requests[i]))
			continue;
		if (!gck_mpi_request_in_real(r)) {
			gck_mpi_request_poll(r);
			continue;
		}
		b.ours[b.n] = r;
		b.real[b.n++] = r->h.real;
		if (b.n == BATCH_SIZE)
			test_batch(&b);
	}
	if (b.n)
		test_batch(&b);
	for (int i = 0; i < n && s.first < 0; i++)
		if (gck_mpi_request_open(requests[i]) &&
		    gck_mpi_request_is_complete((struct gck_mpi_request *)requests[i]))
			s.first = i;
	return s;
}
