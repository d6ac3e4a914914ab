/* SPDX-License-Identifier: Apache-2.0
 * Intercommunicators. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/attribute_predefined.h"

/* The two sides have no clock in common yet: their leaders meet (pair: where these are listed), and
 * each side's ranks have ticked on their own communicator. Nobody to meet: another world's. */
static void call_leader(MPI_Comm bridge, int remote_leader, int tag, struct gck_mpi_meeting *m, int pair[2])
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(bridge);
	int a = gck_mpi_comm_of(MPI_COMM_WORLD)->rank, b = gck_mpi_comm_world_rank(c, remote_leader);

	pair[0] = a < b ? a : b;
	pair[1] = a < b ? b : a;
	m->key = gck_mpi_mix(gck_mpi_mix(c->clock.id, (unsigned)tag), gck_mpi_members_hash(pair, 2));
	m->ranks = pair;
	m->nranks = b < 0 ? 0 : 2;
}

GCK_MPI_FUNCTION(Intercomm_create, (MPI_Comm local_comm, int local_leader, MPI_Comm bridge_comm,
				    int remote_leader, int tag, MPI_Comm *newintercomm))
{
	struct gck_mpi_meeting m = { .nranks = 0 };
	struct gck_mpi_birth b;
	int pair[2], rc;

	gck_mpi_comm_begin(&b, local_comm);
	b.apart = true;
	if (gck_mpi_comm_of(local_comm)->rank == local_leader)
		call_leader(bridge_comm, remote_leader, tag, &m, pair);
	gck_mpi_clock_meet(&m);
	rc = gck_mpi_real.Intercomm_create(GCK_MPI_REAL_COMM(local_comm), local_leader,
					   GCK_MPI_REAL_COMM(bridge_comm), remote_leader,
					   gck_mpi_own_tag(tag), newintercomm ? &b.real : NULL);
	if (rc)
		gck_mpi_comm_failed(local_comm, rc);
	else
		rc = gck_mpi_comm_made(&b, NULL, newintercomm);
	gck_mpi_clock_part(&m);
	gck_mpi_leave();
	return gck_mpi_error(local_comm, rc, "MPI_Intercomm_create");
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
