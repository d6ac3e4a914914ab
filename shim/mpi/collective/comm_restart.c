/* SPDX-License-Identifier: Apache-2.0
 * Communicators over a restart. All members make each one again from the world ranks of its groups;
 * all of them have it (comm_free.h). Every rank makes its communicators in the order of their ids,
 * so there is no deadlock: all members of the least one not made yet are making it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/comm_free.h"
#include "shim/mpi/collective/dynamic.h"
#include "shim/mpi/collective/collective.h"
#include "shim/mpi/types/info.h"

#define REAL_WORLD GCK_MPI_REAL_COMM(MPI_COMM_WORLD)

/* True if MPI_Comm_idup began it and need not end before the checkpoint: its request, which is
 * issued again after the restart, makes it then. */
static bool unborn(const struct gck_mpi_comm *c)
{
	return c->making && c->making_number > c->making->finish;
}

/* ---- save ----------------------------------------------------------------------------------- */

static int save_one(struct gck_mpi_comm *c, MPI_Comm real)
{
	MPI_Info info;
	int rc;

	free(c->topology);
	gck_mpi_info_snapshot_free(c->hints);
	c->topology = NULL;
	c->hints = NULL;
	rc = c->with_topology ? gck_mpi_topology_save(real, &c->topology) : MPI_SUCCESS;
	if (!rc)
		rc = gck_mpi_real.Comm_get_info(real, &info);
	if (!rc)
		rc = gck_mpi_info_snapshot_save(info, &c->hints);
	return rc;
}

static const char *dynamic_remedy(bool alive)
{
	return alive
		       ? "disconnect it (MPI_Comm_disconnect) before the checkpoint"
		       : "it was freed: free its persistent requests as well before the checkpoint";
}

static int save_body(struct gck_mpi_comm *c, struct gck_error *err)
{
	if (c->dynamic)
		return gck_fail(err, ENOTSUP, "a communicator of %d and %d ranks has processes of "
				"another world (MPI_Comm_spawn, MPI_Comm_connect): %s", c->size,
				c->remote_size, dynamic_remedy(c->life == GCK_MPI_COMM_ALIVE));
	if (!unborn(c) && save_one(c, GCK_MPI_REAL_COMM(c->handle)))
		return gck_fail(err, ENOMEM,
				"the topology or hints of a communicator of %d ranks cannot be "
				"read (no memory?)",
				c->size);
	return 0;
}

static int save(struct gck_error *err)
{
	if (save_body(gck_mpi_comm_of(MPI_COMM_WORLD), err) ||
	    save_body(gck_mpi_comm_of(MPI_COMM_SELF), err))
		return -1;
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_COMM); h; h = h->next)
		if (save_body(h->body, err))
			return -1;
	return 0;
}

/* ---- rebuild -------------------------------------------------------------------------------- */

static int tag_of(const struct gck_mpi_comm *c)
{
	return c->clock.id & 0x7fff;
}

/* A plain communicator of the local group. */
static int make_local(const struct gck_mpi_comm *c, MPI_Comm *real)
{
	MPI_Group world, group;
	int rc = gck_mpi_real.Comm_group(REAL_WORLD, &world);

	if (rc)
		return rc;
	rc = gck_mpi_real.Group_incl(world, c->size, c->local, &group);
	if (!rc) {
		rc = gck_mpi_real.Comm_create_group(REAL_WORLD, group, tag_of(c), real);
		gck_mpi_real.Group_free(&group);
	}
	gck_mpi_real.Group_free(&world);
	return rc;
}

/* Replaces the plain communicator by an intercommunicator or one with topology. */
static int make_full(const struct gck_mpi_comm *c, MPI_Comm *real)
{
	MPI_Comm plain = *real;
	int rc;

	if (c->inter)
		rc = gck_mpi_real.Intercomm_create(plain, 0, REAL_WORLD, c->peers[0], tag_of(c),
						   real);
	else if (c->topology)
		rc = gck_mpi_topology_make(c->topology, plain, real);
	else
		return MPI_SUCCESS;
	gck_mpi_real.Comm_free(&plain);
	return rc;
}

static int set_hints(const struct gck_mpi_comm *c, MPI_Comm real)
{
	MPI_Info info;
	int rc;

	if (!c->hints)
		return MPI_SUCCESS;
	rc = gck_mpi_info_snapshot_make(c->hints, &info);
	if (rc)
		return rc;
	rc = gck_mpi_real.Comm_set_info(real, info);
	gck_mpi_real.Info_free(&info);
	return rc;
}

static int make(const struct gck_mpi_comm *c, MPI_Comm *real)
{
	int rc = make_local(c, real);

	if (!rc)
		rc = make_full(c, real);
	if (!rc)
		rc = gck_mpi_comm_quiet(*real);
	if (!rc)
		rc = set_hints(c, *real);
	return rc;
}

static int rebuild_one(struct gck_mpi_comm *c, struct gck_error *err)
{
	char why[MPI_MAX_ERROR_STRING] = "";
	MPI_Comm real;
	int length, rc = make(c, &real);

	if (rc) {
		gck_mpi_real.Error_string(rc, why, &length);
		return gck_fail(err, EIO,
				"a communicator of %d and %d ranks (id %016lx) cannot be made "
				"again after a restart: %s",
				c->size, c->remote_size, (unsigned long)c->clock.id, why);
	}
	gck_mpi_handle_set_real((void *)c->handle, real);
	return 0;
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = (*(struct gck_mpi_comm *const *)a)->clock.id;
	uint64_t y = (*(struct gck_mpi_comm *const *)b)->clock.id;

	return x < y ? -1 : x > y;
}

/* Lists the communicators to make, by id. NULL: no memory. */
static struct gck_mpi_comm **list(size_t *n)
{
	struct gck_mpi_comm **v;
	struct gck_mpi_handle *h;

	*n = 0;
	for (h = gck_mpi_first(GCK_MPI_COMM); h; h = h->next)
		++*n;
	v = calloc(*n + 1, sizeof *v);
	*n = 0;
	for (h = gck_mpi_first(GCK_MPI_COMM); v && h; h = h->next)
		if (!unborn(h->body))
			v[(*n)++] = h->body;
	if (v)
		qsort(v, *n, sizeof *v, by_id);
	return v;
}

static int rebuild(struct gck_error *err)
{
	struct gck_mpi_comm **v;
	size_t n;
	int r = 0;

	if (set_hints(gck_mpi_comm_of(MPI_COMM_WORLD), REAL_WORLD) ||
	    set_hints(gck_mpi_comm_of(MPI_COMM_SELF), GCK_MPI_REAL_COMM(MPI_COMM_SELF)))
		return gck_fail(err, EIO,
				"the hints of MPI_COMM_WORLD or MPI_COMM_SELF cannot be set again "
				"after a restart");
	v = list(&n);
	if (!v)
		return gck_fail(err, ENOMEM,
				"no memory to list the communicators");
	for (size_t i = 0; !r && i < n; i++)
		r = rebuild_one(v[i], err);
	free(v);
	return r;
}

/* ---- obstacles to a checkpoint -------------------------------------------------------------- */

#define MAX_REPORTED 16 /* most obstacles reported: one alone prevents the checkpoint */

struct dynamic {
	size_t n;
	struct {
		int size, remote_size;
		bool alive;
	} v[MAX_REPORTED];
};

static bool note_dynamic(struct gck_mpi_handle *h, void *to)
{
	const struct gck_mpi_comm *c = h->body;
	struct dynamic *d = to;
	bool alive = c && c->life == GCK_MPI_COMM_ALIVE;

	if (!c || !c->dynamic || (!alive && !gck_mpi_comm_in_use(c)))
		return false;
	d->v[d->n].size = c->size;
	d->v[d->n].remote_size = c->remote_size;
	d->v[d->n++].alive = alive;
	return d->n == MAX_REPORTED;
}

/* Reporting may wait for the agent, so it is not done under the list's lock, which the program's
 * threads take. */
static void report_obstacles(gck_mpi_obstacle_fn *report, void *arg)
{
	struct dynamic d = { 0 };
	char what[96];

	gck_mpi_dynamic_report_ports(report, arg);
	gck_mpi_first_that(GCK_MPI_COMM, note_dynamic, &d);
	for (size_t i = 0; i < d.n; i++) {
		snprintf(what, sizeof what, "a communicator of %d and %d ranks", d.v[i].size,
			 d.v[i].remote_size);
		report(arg, what,
		       "it has processes of another world (MPI_Comm_spawn, MPI_Comm_connect)",
		       dynamic_remedy(d.v[i].alive));
	}
}

const struct gck_mpi_participant gck_mpi_comm_participant = {
	.name = "communicators",
	.save = save,
	.rebuild = rebuild,
	.report_obstacles = report_obstacles,
};
