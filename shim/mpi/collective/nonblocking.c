/* SPDX-License-Identifier: Apache-2.0
 * Non-blocking collectives: issued, issued again, finished in a quiesce. */
#include "config.h"

#include "shim/mpi/collective/nonblocking.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/p2p/request.h"

static int reissue(struct gck_mpi_request *r, struct gck_error *err)
{
	struct gck_mpi_nonblocking *n = r->arg;
	int rc = gck_mpi_inputs_put_back(n);

	if (!rc)
		rc = n->issue(n, (MPI_Request *)&r->h.real);
	return rc ? gck_fail(err, EIO, "a non-blocking collective (number %lu of a communicator of %d "
			     "ranks) cannot be started again: code %d of the fresh MPI",
			     (unsigned long)n->number, gck_mpi_comm_of(n->comm)->size, rc) : 0;
}

void gck_mpi_nonblocking_completed(struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;

	gck_mpi_clock_saw(n->clock, n->number);
	if (n->completed)
		n->completed(n);
}

static void freed(struct gck_mpi_request *r)
{
	gck_mpi_nonblocking_free(r->arg);
}

static const struct gck_mpi_request_class class = {
	.name = "non-blocking collective",
	.completed = gck_mpi_nonblocking_completed,
	.reissue = reissue,
	.freed = freed,
};

int gck_mpi_nonblocking_begin(struct gck_mpi_nonblocking *n, MPI_Request *request)
{
	struct gck_mpi_request *r;
	int rc;

	if (!n)
		return MPI_ERR_NO_MEM;
	if (!request || n->failed) {
		gck_mpi_nonblocking_free(n);
		return request ? MPI_ERR_NO_MEM : MPI_ERR_REQUEST;
	}
	rc = gck_mpi_inputs_take(n);
	if (rc) {
		gck_mpi_nonblocking_free(n);
		return rc;
	}
	n->number = gck_mpi_clock_start(n->clock);
	r = gck_mpi_request_start(&class, n->comm, n);
	rc = r ? n->issue(n, (MPI_Request *)&r->h.real) : MPI_ERR_NO_MEM;
	if (!rc) {
		*request = (MPI_Request)r;
		return MPI_SUCCESS;
	}
	gck_mpi_clock_unstart(n->clock);
	if (r)
		gck_mpi_request_free(r);
	else
		gck_mpi_nonblocking_free(n);
	return rc;
}

/* ---- the quiesce ---------------------------------------------------------------------------- */

static bool is_active(const struct gck_mpi_request *r)
{
	return r->what == GCK_MPI_REQUEST_CLASS && r->state == GCK_MPI_REQUEST_ACTIVE &&
	       r->class->completed == gck_mpi_nonblocking_completed;
}

static bool to_finish(const struct gck_mpi_request *r)
{
	const struct gck_mpi_nonblocking *n = r->arg;

	return is_active(r) && n->number <= n->clock->finish;
}

struct counts {
	size_t active, open;
};

static void count(struct gck_mpi_request *r, void *counts)
{
	struct counts *c = counts;

	c->active += is_active(r);
	c->open += to_finish(r);
}

size_t gck_mpi_nonblocking_open(size_t *active)
{
	struct counts c = { 0 };

	gck_mpi_request_each(count, &c);
	if (active)
		*active = c.active;
	return c.open;
}

static void bring_on(struct gck_mpi_request *r, void *unused)
{
	(void)unused;
	if (to_finish(r))
		gck_mpi_request_poll(r);
}

int gck_mpi_nonblocking_step(struct gck_error *err)
{
	(void)err;
	gck_mpi_request_each(bring_on, NULL);
	return 0;
}
