/* SPDX-License-Identifier: Apache-2.0
 * Persistent collectives. Each has its own hidden communicator and clock: ranks may start them in
 * different orders, and after a restart the ranks that have not freed one make it again, whatever
 * the others do. */
#include "config.h"

#include "shim/mpi/collective/collective.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/comm_free.h"
#include "shim/mpi/collective/issue.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/handles/error.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"

int gck_mpi_collective_failed(MPI_Comm comm, int rc, const char *function)
{
	gck_mpi_comm_failed(comm, rc);
	return gck_mpi_error(comm, rc, function);
}

/* ---- the communicator ----------------------------------------------------------------------- */

static int make_hidden(MPI_Comm comm, MPI_Comm *hidden)
{
	const struct gck_mpi_comm *like = gck_mpi_comm_of(comm);
	struct gck_mpi_birth b = {
		.parent = comm, .real = gck_mpi_real_null[GCK_MPI_COMM],
		.with_topology = like->with_topology,
	};
	int rc;

	gck_mpi_comm_await(comm);
	b.seed = gck_mpi_clock_child(&like->clock);
	gck_mpi_clock_tick(&gck_mpi_comm_of(comm)->clock);
	rc = gck_mpi_real.Comm_dup(GCK_MPI_REAL_COMM(comm), &b.real);
	if (rc)
		gck_mpi_comm_failed(comm, rc);
	else
		rc = gck_mpi_comm_made(&b, like, hidden);
	return rc;
}

/* Keeps the arguments: as long as one rank has not freed the request, the ranks that have freed it
 * must make it again in the fresh library as well. */
static void drop(struct gck_mpi_nonblocking *n)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(n->comm);

	c->first = n;
	gck_mpi_comm_let_go(c);
}

static void freed(struct gck_mpi_request *r)
{
	if (r->arg)
		drop(r->arg);
}

/* ---- the request ---------------------------------------------------------------------------- */

static int starts(struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;
	int rc = gck_mpi_inputs_take(n);

	if (!rc)
		n->number = gck_mpi_clock_start(n->clock);
	return rc;
}

static void not_started(struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;

	gck_mpi_clock_unstart(n->clock);
}

static int make_again(struct gck_mpi_request *r, struct gck_error *err)
{
	struct gck_mpi_nonblocking *n = r->arg;
	int rc = MPI_SUCCESS;

	if (r->state == GCK_MPI_REQUEST_ACTIVE)
		rc = gck_mpi_inputs_put_back(n);
	if (!rc)
		rc = n->issue(n, (MPI_Request *)&r->h.real);
	return rc ? gck_fail(err, EIO,
			     "a persistent collective of %d ranks cannot be made again after a "
			     "restart: MPI error %d",
			     gck_mpi_comm_of(n->comm)->size, rc)
		  : 0;
}

static const struct gck_mpi_request_class class = {
	.name = "persistent collective",
	.completed = gck_mpi_nonblocking_completed,
	.starts = starts,
	.not_started = not_started,
	.reissue = make_again,
	.freed = freed,
};

static int make(struct gck_mpi_nonblocking *n, MPI_Comm comm, MPI_Request *request)
{
	struct gck_mpi_request *r = gck_mpi_request_persistent(&class, comm, n);
	int rc = r ? n->issue(n, (MPI_Request *)&r->h.real) : MPI_ERR_NO_MEM;

	if (!rc) {
		*request = (MPI_Request)r;
		return MPI_SUCCESS;
	}
	drop(n);
	if (r) {
		r->arg = NULL;
		gck_mpi_request_free(r);
	}
	return rc;
}

int gck_mpi_persistent_begin(struct gck_mpi_nonblocking *n, MPI_Info info, MPI_Request *request)
{
	MPI_Comm comm = n ? n->comm : MPI_COMM_NULL;
	int rc;

	if (!n)
		return MPI_ERR_NO_MEM;
	n->info = gck_mpi_retain_info(n, info);
	gck_mpi_comm_tend();
	if (!request || n->failed)
		rc = request ? MPI_ERR_NO_MEM : MPI_ERR_REQUEST;
	else
		rc = make_hidden(comm, &n->comm);
	if (rc) {
		gck_mpi_nonblocking_free(n);
		return rc;
	}
	n->clock = &gck_mpi_comm_of(n->comm)->clock;
	return make(n, comm, request);
}
