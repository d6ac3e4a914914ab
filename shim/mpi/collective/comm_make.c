/* SPDX-License-Identifier: Apache-2.0
 * Communicators made of communicators. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"

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

/* Collective over the group alone: a meeting of its ranks, known by communicator, tag and group. Its
 * ranks (to be freed) are listed; an empty group meets nobody. */
static int call_group(MPI_Comm comm, MPI_Group group, int tag, struct gck_mpi_meeting *m, int **ranks)
{
	MPI_Group real = GCK_MPI_REAL_GROUP(group), copy;
	bool other = false;
	int size, rc;

	rc = gck_mpi_real.Group_size(real, &size);
	if (!rc)
		rc = gck_mpi_real.Group_excl(real, 0, NULL, &copy);
	if (rc || size == 0)
		return rc;
	*ranks = gck_mpi_comm_ranks(copy, size, &other);
	if (!*ranks)
		return MPI_ERR_NO_MEM;
	m->key = gck_mpi_mix(gck_mpi_mix(gck_mpi_comm_of(comm)->clock.id, (unsigned)tag),
			     gck_mpi_members_hash(*ranks, (size_t)size));
	m->ranks = *ranks;
	m->nranks = other ? 0 : (size_t)size;
	return MPI_SUCCESS;
}

/* Of this rank, for the id of what it makes with a group. */
static uint64_t own_seed(void)
{
	static _Atomic uint64_t n;

	return gck_mpi_mix((uint64_t)gck_mpi_comm_of(MPI_COMM_WORLD)->rank, ++n);
}

static int create_group(struct gck_mpi_birth *b, MPI_Group group, int tag, MPI_Comm *newcomm)
{
	struct gck_mpi_meeting m = { .nranks = 0 };
	int *ranks = NULL, rc = call_group(b->parent, group, tag, &m, &ranks);

	if (rc)
		return rc;
	gck_mpi_clock_meet(&m);
	rc = gck_mpi_real.Comm_create_group(GCK_MPI_REAL_COMM(b->parent), GCK_MPI_REAL_GROUP(group),
					    gck_mpi_own_tag(tag), newcomm ? &b->real : NULL);
	if (!rc)
		rc = gck_mpi_comm_made(b, NULL, newcomm);
	gck_mpi_clock_part(&m);
	free(ranks);
	return rc;
}

GCK_MPI_FUNCTION(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm))
{
	struct gck_mpi_birth b = { .parent = comm, .apart = true };
	int rc;

	gck_mpi_enter();
	gck_mpi_clock_ask();
	b.real = gck_mpi_real_null[GCK_MPI_COMM];
	b.seed = own_seed();
	rc = create_group(&b, group, tag, newcomm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Comm_create_group");
}
