/* SPDX-License-Identifier: Apache-2.0
 * MPI_Comm_idup: a non-blocking collective whose result is a communicator. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/attribute.h"

struct idup {
	struct gck_mpi_nonblocking n;
	MPI_Comm newcomm;
};

static void completed(struct gck_mpi_nonblocking *n)
{
	struct idup *a = (struct idup *)n;
	struct gck_mpi_comm *c = gck_mpi_comm_of(a->newcomm);

	c->making = NULL;
	gck_mpi_clock_add(&c->clock);
}

/* The first time: the handle. */
static int give_birth(struct idup *a, MPI_Comm real)
{
	struct gck_mpi_birth b = { .parent = a->n.comm, .real = real, .unborn = true };
	struct gck_mpi_comm *c;
	int rc;

	b.seed = gck_mpi_mix(a->n.clock->id, ~a->n.number);
	rc = gck_mpi_comm_made(&b, gck_mpi_comm_of(b.parent), &a->newcomm);
	if (rc)
		return rc;
	c = gck_mpi_comm_of(a->newcomm);
	c->with_topology = gck_mpi_comm_of(b.parent)->with_topology;
	c->making = a->n.clock;
	c->making_number = a->n.number;
	a->n.completed = completed;
	return MPI_SUCCESS;
}

static int issue(struct gck_mpi_nonblocking *n, MPI_Request *request)
{
	struct idup *a = (struct idup *)n;
	MPI_Comm real;
	int rc = gck_mpi_real.Comm_idup(GCK_MPI_REAL_COMM(n->comm), &real, request);

	if (rc)
		return rc;
	if (!a->newcomm)
		return give_birth(a, real);
	gck_mpi_handle_set_real(a->newcomm, real);
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Comm_idup, (MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request))
{
	struct idup *a;
	int rc;

	gck_mpi_enter();
	a = newcomm ? gck_mpi_nonblocking_new(sizeof *a, comm, issue) : NULL;
	rc = newcomm ? gck_mpi_nonblocking_begin(a ? &a->n : NULL, request) : MPI_ERR_ARG;
	if (!rc)
		*newcomm = a->newcomm;
	gck_mpi_leave();
	if (!rc)
		rc = gck_mpi_attributes_copy(*newcomm, comm);
	return gck_mpi_error(comm, rc, "MPI_Comm_idup");
}
