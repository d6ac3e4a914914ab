/* SPDX-License-Identifier: Apache-2.0
 * Functions that make communicators and intercommunicators from communicators. The result of
 * MPI_Comm_idup exists once its non-blocking collective has ended. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/collective.h"
#include "shim/mpi/collective/issue.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/attribute_predefined.h"

void gck_mpi_comm_begin_as(struct gck_mpi_birth *b, MPI_Comm parent, const char *function)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(parent);

	b->parent = parent;
	b->real = gck_mpi_real_null[GCK_MPI_COMM];
	b->with_topology = b->apart = b->unborn = false;
	gck_mpi_enter_as(function);
	gck_mpi_comm_await(parent);
	b->seed = gck_mpi_clock_child(&c->clock);
	gck_mpi_clock_tick(&c->clock);
}

/* The program's callbacks copy attributes, outside the gate. If one fails, newcomm is freed. */
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

/* Prepares the meeting of a call that is collective over the group alone, identified by
 * communicator, tag and group. *ranks, which the caller frees, lists the group's ranks; an empty
 * group has no meeting. */
static int prepare_group_meeting(MPI_Comm comm, MPI_Group group, int tag, struct gck_mpi_meeting *m,
				 int **ranks)
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

/* A seed of this rank for the ids of communicators that it makes from groups. */
static uint64_t own_seed(void)
{
	static _Atomic uint64_t n;

	return gck_mpi_mix((uint64_t)gck_mpi_comm_of(MPI_COMM_WORLD)->rank, ++n);
}

static int create_group(struct gck_mpi_birth *b, MPI_Group group, int tag, MPI_Comm *newcomm)
{
	struct gck_mpi_meeting m = { .nranks = 0 };
	int *ranks = NULL, rc = prepare_group_meeting(b->parent, group, tag, &m, &ranks);

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
	gck_mpi_nonblocking_release(n);
}

static int issue(struct gck_mpi_nonblocking *n, MPI_Request *request)
{
	struct idup *a = (struct idup *)n;
	MPI_Comm real;
	int rc = gck_mpi_real.Comm_idup(GCK_MPI_REAL_COMM(n->comm), &real, request);

	if (!rc)
		gck_mpi_handle_set_real((void *)a->newcomm, real);
	return rc;
}

/* The program has the handle from the start; the real communicator follows when it is issued. */
static int make_handle(struct idup *a, MPI_Comm comm)
{
	struct gck_mpi_birth b = { .parent = comm, .unborn = true };

	b.with_topology = gck_mpi_comm_of(comm)->with_topology;
	b.seed = gck_mpi_mix(a->n.clock->id, ~(a->n.clock->started + 1));
	return gck_mpi_comm_made(&b, gck_mpi_comm_of(comm), &a->newcomm);
}

static int idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
	struct idup *a = gck_mpi_nonblocking_new(sizeof *a, comm, issue);
	struct gck_mpi_comm *c;
	int rc = a ? make_handle(a, comm) : MPI_ERR_NO_MEM;

	if (rc) {
		free(a);
		return rc;
	}
	c = gck_mpi_comm_of(a->newcomm);
	c->making = a->n.clock;
	c->making_number = a->n.clock->started + 1;
	a->n.exclusive = true;
	a->n.completed = completed;
	rc = gck_mpi_nonblocking_begin(&a->n, request);
	if (rc)
		gck_mpi_comm_forget(c);
	else
		*newcomm = c->handle;
	return rc;
}

GCK_MPI_FUNCTION(Comm_idup, (MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request))
{
	int rc;

	gck_mpi_enter();
	rc = newcomm ? idup(comm, newcomm, request) : MPI_ERR_ARG;
	gck_mpi_leave();
	if (!rc)
		rc = gck_mpi_attributes_copy(*newcomm, comm);
	return gck_mpi_error(comm, rc, "MPI_Comm_idup");
}

/* The two sides have no common clock yet: their leaders (listed in pair) meet, and each side's
 * ranks have ticked on their own communicator. A leader of another world is not met. */
static void prepare_leader_meeting(MPI_Comm bridge, int remote_leader, int tag,
				   struct gck_mpi_meeting *m, int pair[2])
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(bridge);
	int a = gck_mpi_comm_of(MPI_COMM_WORLD)->rank,
	    b = gck_mpi_comm_world_rank(c, remote_leader);

	pair[0] = a < b ? a : b;
	pair[1] = a < b ? b : a;
	m->key = gck_mpi_mix(gck_mpi_mix(c->clock.id, (unsigned)tag),
			     gck_mpi_members_hash(pair, 2));
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
		prepare_leader_meeting(bridge_comm, remote_leader, tag, &m, pair);
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
