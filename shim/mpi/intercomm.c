/* SPDX-License-Identifier: Apache-2.0
 * Intercommunicators. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/comm.h"
#include "shim/mpi/function.h"

/* The two sides have no clock in common yet: their leaders meet, and each side's ranks have ticked on
 * their own communicator. */
static int meet_leader(MPI_Comm bridge, int remote_leader)
{
	int a = gck_mpi_comm_of(MPI_COMM_WORLD)->rank;
	int b = gck_mpi_comm_world_rank(gck_mpi_comm_of(bridge), remote_leader);
	int pair[2] = { a < b ? a : b, a < b ? b : a };

	if (b < 0) /* another world's, or a wrong argument */
		return MPI_SUCCESS;
	return gck_mpi_clock_meet(gck_mpi_mix((uint64_t)pair[0] << 32, pair[1]), pair, 2)
		       ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* An id that both sides find: from the members, the tag, and how many there have been of these. */
static int name_it(struct gck_mpi_comm *c, int tag)
{
	int n = c->size + c->remote_size, *all;
	uint64_t key = gck_mpi_mix(gck_mpi_comm_members(c), (unsigned)tag), count;

	if (c->dynamic)
		return MPI_SUCCESS;
	all = malloc((size_t)n * sizeof *all);
	if (!all)
		return MPI_ERR_NO_MEM;
	memcpy(all, c->local, (size_t)c->size * sizeof *all);
	memcpy(all + c->size, c->peers, (size_t)c->remote_size * sizeof *all);
	count = gck_mpi_clock_meet(key, all, n);
	free(all);
	c->clock.id = gck_mpi_mix(key, count);
	return count ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

int gck_mpi_intercomm_end(const struct gck_mpi_birth *b, int rc, int tag, MPI_Comm *newcomm,
			  const char *function)
{
	if (rc)
		gck_mpi_comm_failed(b->parent, rc);
	else
		rc = gck_mpi_comm_made(b, NULL, newcomm);
	if (!rc)
		rc = name_it(gck_mpi_comm_of(*newcomm), tag);
	gck_mpi_leave();
	return gck_mpi_error(b->parent, rc, function);
}

GCK_MPI_FUNCTION(Intercomm_create, (MPI_Comm local_comm, int local_leader, MPI_Comm bridge_comm,
				    int remote_leader, int tag, MPI_Comm *newintercomm))
{
	struct gck_mpi_birth b;
	int rc = MPI_SUCCESS;

	gck_mpi_comm_begin(&b, local_comm);
	if (gck_mpi_comm_of(local_comm)->rank == local_leader)
		rc = meet_leader(bridge_comm, remote_leader);
	if (!rc)
		rc = gck_mpi_real.Intercomm_create(GCK_MPI_REAL_COMM(local_comm), local_leader,
						   GCK_MPI_REAL_COMM(bridge_comm), remote_leader,
						   tag, newintercomm ? &b.real : NULL);
	return gck_mpi_intercomm_end(&b, rc, tag, newintercomm, "MPI_Intercomm_create");
}

GCK_MPI_FUNCTION(Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm *newintercomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, intercomm);
	rc = gck_mpi_real.Intercomm_merge(GCK_MPI_REAL_COMM(intercomm), high,
					  newintercomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newintercomm, "MPI_Intercomm_merge");
}
