/* SPDX-License-Identifier: Apache-2.0
 * Functions that the generated collectives (collectives.py) use. */
#ifndef GCK_MPI_COLLECTIVE_H
#define GCK_MPI_COLLECTIVE_H

#include "shim/mpi/comm/comm.h"
#include <mpi.h>

/* True if a rooted collective gathers to or scatters from this rank. */
static inline bool gck_mpi_at_root(MPI_Comm comm, int root)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(comm);

	return c->inter ? root == MPI_ROOT : root == c->rank;
}

/* An argument that the standard calls not significant may be anything, also an invalid handle; a
 * harmless one replaces it. */
static inline MPI_Datatype gck_mpi_if_type(bool significant, MPI_Datatype type)
{
	return significant ? type : MPI_BYTE;
}

static inline MPI_Op gck_mpi_if_op(bool significant, MPI_Op op)
{
	return significant ? op : MPI_SUM;
}

/* Begins a call that makes a communicator from its parent (comm.h). */
#define gck_mpi_comm_begin(b, parent) gck_mpi_comm_begin_as(b, parent, __func__)
void gck_mpi_comm_begin_as(struct gck_mpi_birth *b, MPI_Comm parent, const char *function);

/* Handles a failed collective; returns what the call returns. */
GCK_MUST_CHECK int gck_mpi_collective_failed(MPI_Comm comm, int rc, const char *function);

/* Ends a blocking collective with rc, after the gate was left. */
static inline int gck_mpi_collective_end(MPI_Comm comm, int rc, const char *function)
{
	return __builtin_expect(rc == MPI_SUCCESS, 1)
		       ? rc : gck_mpi_collective_failed(comm, rc, function);
}

struct gck_mpi_nonblocking;

/* Makes a persistent collective; the call itself is collective. Like gck_mpi_nonblocking_begin
 * otherwise. */
GCK_MUST_CHECK int gck_mpi_persistent_begin(struct gck_mpi_nonblocking *n, MPI_Info info,
					    MPI_Request *request);

struct gck_mpi_topology;

/* Saves the topology of a real communicator in *t, from malloc; NULL if it has none. Returns an MPI
 * error code. */
GCK_MUST_CHECK int gck_mpi_topology_save(MPI_Comm real, struct gck_mpi_topology **t);

/* Makes a real communicator with the topology and the ranks of `plain` in the same order.
 * Collective over `plain`, which is kept. Returns an MPI error code. */
GCK_MUST_CHECK int gck_mpi_topology_make(const struct gck_mpi_topology *t, MPI_Comm plain,
					 MPI_Comm *real);

#endif
