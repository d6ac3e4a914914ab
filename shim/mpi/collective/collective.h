/* SPDX-License-Identifier: Apache-2.0
 * What the generated collectives (collectives.py) are made of. */
#ifndef GCK_MPI_COLLECTIVE_H
#define GCK_MPI_COLLECTIVE_H

#include "shim/mpi/comm/comm.h"
#include <mpi.h>

/* Is this rank the one that a rooted collective gathers to or scatters from? */
static inline bool gck_mpi_at_root(MPI_Comm comm, int root)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(comm);

	return c->inter ? root == MPI_ROOT : root == c->rank;
}

/* What the standard says is not looked at may be anything: a handle that is none, for example. */
static inline MPI_Datatype gck_mpi_if_type(bool significant, MPI_Datatype type)
{
	return significant ? type : MPI_BYTE;
}

static inline MPI_Op gck_mpi_if_op(bool significant, MPI_Op op)
{
	return significant ? op : MPI_SUM;
}

/* One failed. What the call returns. */
int gck_mpi_collective_failed(MPI_Comm comm, int rc, const char *function);

/* The end of a blocking collective: rc, after the gate. */
static inline int gck_mpi_collective_end(MPI_Comm comm, int rc, const char *function)
{
	return __builtin_expect(rc == MPI_SUCCESS, 1)
		       ? rc : gck_mpi_collective_failed(comm, rc, function);
}

struct gck_mpi_nonblocking;

/* Make a persistent one: collective, as MPI has it. Otherwise as begin. */
int gck_mpi_persistent_begin(struct gck_mpi_nonblocking *n, MPI_Info info, MPI_Request *request);

struct gck_mpi_topology;

/* Of a real communicator: *t, from malloc, is NULL if it has none. An MPI error code. */
int gck_mpi_topology_save(MPI_Comm real, struct gck_mpi_topology **t);

/* A real communicator like `plain`, ranks in the same order, with the topology; collective over
 * `plain`, which stays. An MPI error code. */
int gck_mpi_topology_make(const struct gck_mpi_topology *t, MPI_Comm plain, MPI_Comm *real);

#endif
