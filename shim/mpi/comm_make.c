/* SPDX-License-Identifier: Apache-2.0
 * Communicators made of communicators. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/attribute.h"
#include "shim/mpi/comm.h"
#include "shim/mpi/function.h"

/* Attributes are copied by the program's callbacks, outside of the gate. One that fails undoes it. */
static int with_attributes(MPI_Comm comm, int rc, MPI_Comm *newcomm, const char *function)
{
	if (rc || *newcomm == MPI_COMM_NULL)
		return rc;
	rc = gck_mpi_attributes_copy(*newcomm, comm);
	if (rc) {
		PMPI_Comm_free(newcomm);
		*newcomm = MPI_COMM_NULL;
	}
	return gck_mpi_error(comm, rc, function);
}

GCK_MPI_FUNCTION(Comm_dup, (MPI_Comm comm, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	b.with_topology = gck_mpi_comm_of(comm)->with_topology;
	rc = gck_mpi_real.Comm_dup(GCK_MPI_REAL_COMM(comm), newcomm ? &b.real : NULL);
	rc = gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_dup");
	return with_attributes(comm, rc, newcomm, "MPI_Comm_dup");
}

GCK_MPI_FUNCTION(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	b.with_topology = gck_mpi_comm_of(comm)->with_topology;
	rc = gck_mpi_real.Comm_dup_with_info(GCK_MPI_REAL_COMM(comm),
					     gck_mpi_real_handle(info, GCK_MPI_INFO),
					     newcomm ? &b.real : NULL);
	rc = gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_dup_with_info");
	return with_attributes(comm, rc, newcomm, "MPI_Comm_dup_with_info");
}

GCK_MPI_FUNCTION(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	rc = gck_mpi_real.Comm_create(GCK_MPI_REAL_COMM(comm), GCK_MPI_REAL_GROUP(group),
				      newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_create");
}

GCK_MPI_FUNCTION(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	rc = gck_mpi_real.Comm_split(GCK_MPI_REAL_COMM(comm), color, key, newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_split");
}

GCK_MPI_FUNCTION(Comm_split_type, (MPI_Comm comm, int split_type, int key, MPI_Info info,
				   MPI_Comm *newcomm))
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin(&b, comm);
	rc = gck_mpi_real.Comm_split_type(GCK_MPI_REAL_COMM(comm), split_type, key,
					  gck_mpi_real_handle(info, GCK_MPI_INFO),
					  newcomm ? &b.real : NULL);
	return gck_mpi_comm_end(&b, rc, newcomm, "MPI_Comm_split_type");
}

/* Collective over the group alone: a meeting of its members, known by communicator, tag and group. */
static int create_group(struct gck_mpi_birth *b, MPI_Group group, int tag)
{
	MPI_Group real = GCK_MPI_REAL_GROUP(group), copy;
	uint64_t key = gck_mpi_mix(gck_mpi_comm_of(b->parent)->clock.id, (unsigned)tag), n;
	bool other = false;
	int size, *ranks, rc;

	rc = gck_mpi_real.Group_size(real, &size);
	if (!rc)
		rc = gck_mpi_real.Group_excl(real, 0, NULL, &copy);
	if (rc || size == 0)
		return rc;
	ranks = gck_mpi_comm_ranks(copy, size, &other);
	if (!ranks)
		return MPI_ERR_NO_MEM;
	key = gck_mpi_mix(key, gck_mpi_members_hash(ranks, size));
	n = other ? 1 : gck_mpi_clock_meet(key, ranks, size);
	b->seed = gck_mpi_mix(key, n);
	free(ranks);
	return n ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

GCK_MPI_FUNCTION(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b = { .parent = comm };
	int rc;

	gck_mpi_enter();
	gck_mpi_clock_ask();
	b.real = gck_mpi_real_null[GCK_MPI_COMM];
	rc = create_group(&b, group, tag);
	if (!rc)
		rc = gck_mpi_real.Comm_create_group(GCK_MPI_REAL_COMM(comm),
						    GCK_MPI_REAL_GROUP(group), tag,
						    newcomm ? &b.real : NULL);
	if (!rc)
		rc = gck_mpi_comm_made(&b, NULL, newcomm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Comm_create_group");
}
