/* SPDX-License-Identifier: Apache-2.0
 * What the generated collectives (collectives.py) are made of. */
#ifndef GCK_MPI_COLLECTIVE_H
#define GCK_MPI_COLLECTIVE_H

#include "shim/mpi/comm/comm.h"

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

#endif
