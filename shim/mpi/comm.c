/* SPDX-License-Identifier: Apache-2.0
 * Bodies of communicators: their making and their end. */
#include "config.h"

#include "shim/mpi/comm.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/attribute.h"
#include "shim/mpi/drained.h"
#include "shim/mpi/dynamic.h"
#include "shim/mpi/function.h"
#include "shim/mpi/hints.h"
#include "shim/mpi/request.h"
#include "shim/mpi/topology.h"

/* An object that a program makes. */
struct made {
	struct gck_mpi_handle h;
	struct gck_mpi_comm body;
};

static struct gck_mpi_comm world, self;
struct gck_mpi_comm gck_mpi_comm_dummy;

/* ---- who is in it --------------------------------------------------------------------------- */

static int translate(MPI_Group real, int n, int *from, int *to)
{
	MPI_Group all;
	int rc = gck_mpi_real.Comm_group(GCK_MPI_REAL_COMM(MPI_COMM_WORLD), &all);

	if (rc)
		return rc;
	rc = gck_mpi_real.Group_translate_ranks(real, n, from, all, to);
	gck_mpi_real.Group_free(&all);
	return rc;
}

int *gck_mpi_comm_ranks(MPI_Group real, int n, bool *other)
{
	int *from = malloc(2 * ((size_t)n + 1) * sizeof *from), *to = from ? from + n : NULL, rc = -1;

	if (from) {
		for (int i = 0; i < n; i++)
			from[i] = i;
		rc = translate(real, n, from, to);
	}
	gck_mpi_real.Group_free(&real);
	if (rc) {
		free(from);
		return NULL;
	}
	for (int i = 0; i < n; i++) {
		from[i] = to[i] == MPI_UNDEFINED ? -1 : to[i];
		*other |= from[i] < 0;
	}
	return from;
}

uint64_t gck_mpi_comm_members(const struct gck_mpi_comm *c)
{
	uint64_t here = gck_mpi_members_hash(c->local, c->size), there;

	if (!c->inter)
		return here;
	there = gck_mpi_members_hash(c->peers, c->remote_size);
	return c->local[0] < c->peers[0] ? gck_mpi_mix(here, there) : gck_mpi_mix(there, here);
}

static int ask_remote(struct gck_mpi_comm *c, MPI_Comm real)
{
	MPI_Group g;
	int rc = gck_mpi_real.Comm_remote_size(real, &c->remote_size);

	if (!rc)
		rc = gck_mpi_real.Comm_remote_group(real, &g);
	if (rc)
		return rc;
	c->peers = gck_mpi_comm_ranks(g, c->remote_size, &c->dynamic);
	return c->peers ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int ask(struct gck_mpi_comm *c, MPI_Comm real)
{
	MPI_Group g;
	int inter = 0, rc;

	rc = gck_mpi_real.Comm_rank(real, &c->rank);
	if (!rc)
		rc = gck_mpi_real.Comm_size(real, &c->size);
	if (!rc)
		rc = gck_mpi_real.Comm_test_inter(real, &inter);
	if (!rc)
		rc = gck_mpi_real.Comm_group(real, &g);
	if (rc)
		return rc;
	c->inter = inter;
	c->local = gck_mpi_comm_ranks(g, c->size, &c->dynamic);
	if (!c->local)
		return MPI_ERR_NO_MEM;
	if (c->inter)
		return ask_remote(c, real);
	c->peers = c->local;
	return MPI_SUCCESS;
}

static int *copy_ranks(const int *ranks, int n)
{
	int *copy = malloc(((size_t)n + 1) * sizeof *copy);

	return copy ? memcpy(copy, ranks, (size_t)n * sizeof *copy) : NULL;
}

static int copy_like(struct gck_mpi_comm *c, const struct gck_mpi_comm *like)
{
	c->rank = like->rank;
	c->size = like->size;
	c->inter = like->inter;
	c->dynamic = like->dynamic;
	c->remote_size = like->remote_size;
	c->local = copy_ranks(like->local, like->size);
	c->peers = like->inter ? copy_ranks(like->peers, like->remote_size) : c->local;
	return c->local && c->peers ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static void clear(struct gck_mpi_comm *c)
{
	if (c->inter)
		free(c->peers);
	free(c->local);
	gck_mpi_topology_free(c->topology);
	gck_mpi_hints_free(c->hints);
}

/* ---- the predefined ones -------------------------------------------------------------------- */

static int init(struct gck_mpi_comm *c, MPI_Comm handle, uint64_t id)
{
	struct gck_mpi_handle *h = (void *)handle;
	if (ask(c, h->real))
		return -1;
	c->handle = handle;
	h->body = c;
	return gck_mpi_clock_add(&c->clock, id, gck_mpi_comm_members(c));
}

int gck_mpi_comm_init(struct gck_error *err)
{
	if (init(&world, MPI_COMM_WORLD, 1) || init(&self, MPI_COMM_SELF, 2))
		return gck_fail(err, ENOMEM, "MPI_COMM_WORLD: its ranks cannot be listed (no memory?)");
	if (gck_mpi_dynamic_init())
		return gck_fail(err, ENOMEM, "MPI_Comm_get_parent: no memory for the communicator");
	self.clock.id = gck_mpi_mix(2, self.local[0]);
	return 0;
}

/* ---- making --------------------------------------------------------------------------------- */

int gck_mpi_comm_quiet(MPI_Comm real)
{
	MPI_Errhandler quiet = gck_mpi_real_handle(MPI_ERRORS_RETURN, GCK_MPI_ERRHANDLER);

	return gck_mpi_real.Comm_set_errhandler(real, quiet);
}

void gck_mpi_comm_begin_as(struct gck_mpi_birth *b, MPI_Comm parent, const char *function)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(parent);

	b->parent = parent;
	b->real = gck_mpi_real_null[GCK_MPI_COMM];
	b->with_topology = false;
	gck_mpi_enter_as(function);
	b->seed = gck_mpi_clock_child(&c->clock, 0);
	gck_mpi_clock_tick(&c->clock);
}

static struct made *new_made(const struct gck_mpi_birth *b, const struct gck_mpi_comm *like, int *rc)
{
	struct made *m = gck_mpi_handle_new(GCK_MPI_COMM, sizeof *m, b->real);
	struct gck_mpi_comm *c;

	*rc = MPI_ERR_NO_MEM;
	if (!m)
		return NULL;
	c = &m->body;
	c->handle = (MPI_Comm)m;
	c->with_topology = b->with_topology;
	*rc = gck_mpi_comm_quiet(b->real);
	if (!*rc)
		*rc = like ? copy_like(c, like) : ask(c, b->real);
	if (!*rc) {
		uint64_t members = gck_mpi_comm_members(c);

		*rc = gck_mpi_clock_add(&c->clock, gck_mpi_mix(b->seed, members), members)
			      ? MPI_ERR_NO_MEM : MPI_SUCCESS;
	}
	if (!*rc) {
		m->h.body = c;
		return m;
	}
	clear(c);
	gck_mpi_handle_free(m);
	return NULL;
}

int gck_mpi_comm_made(const struct gck_mpi_birth *b, const struct gck_mpi_comm *like, MPI_Comm *newcomm)
{
	MPI_Comm real = b->real;
	struct made *m;
	int rc;

	*newcomm = MPI_COMM_NULL;
	if (real == gck_mpi_real_null[GCK_MPI_COMM])
		return MPI_SUCCESS;
	m = new_made(b, like, &rc);
	if (!m) {
		gck_mpi_real.Comm_free(&real);
		return rc;
	}
	*newcomm = (MPI_Comm)m;
	gck_mpi_errhandler_inherit(m, b->parent);
	return MPI_SUCCESS;
}

int gck_mpi_comm_end(const struct gck_mpi_birth *b, int rc, MPI_Comm *newcomm, const char *function)
{
	if (rc == MPI_SUCCESS)
		rc = gck_mpi_comm_made(b, NULL, newcomm);
	else
		gck_mpi_comm_failed(b->parent, rc);
	gck_mpi_leave();
	return gck_mpi_error(b->parent, rc, function);
}

/* The real library checks arguments before it does anything. */
void gck_mpi_comm_failed(MPI_Comm comm, int rc)
{
	switch (rc) {
	case MPI_ERR_BUFFER:
	case MPI_ERR_COUNT:
	case MPI_ERR_TYPE:
	case MPI_ERR_TAG:
	case MPI_ERR_COMM:
	case MPI_ERR_RANK:
	case MPI_ERR_ROOT:
	case MPI_ERR_GROUP:
	case MPI_ERR_OP:
	case MPI_ERR_TOPOLOGY:
	case MPI_ERR_DIMS:
	case MPI_ERR_ARG:
	case MPI_ERR_INFO:
		gck_mpi_clock_untick(&gck_mpi_comm_of(comm)->clock);
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

static void find_use(struct gck_mpi_request *r, void *comm)
{
	if (r->comm == *(MPI_Comm *)comm)
		*(MPI_Comm *)comm = MPI_COMM_NULL;
}

/* Does any request or matched message name it? Persistent ones count, and those that the program has
 * yet to ask for. */
static bool in_use(MPI_Comm comm)
{
	MPI_Comm found = comm;

	if (gck_mpi_comm_of(comm)->messages)
		return true;
	gck_mpi_request_each(find_use, &found);
	return found != comm;
}

static void forget(struct gck_mpi_comm *c)
{
	MPI_Comm handle = c->handle;

	gck_mpi_drained_forget(c);
	clear(c);
	gck_mpi_handle_free((void *)handle);
}

/* One of them, and it is the caller's: another thread does not find it. */
static bool is_over(struct gck_mpi_handle *h, void *unused)
{
	struct gck_mpi_comm *c = h->body;

	(void)unused;
	if (!c || !c->freed || in_use(c->handle))
		return false;
	c->freed = false;
	return true;
}

void gck_mpi_comm_sweep(void)
{
	struct gck_mpi_handle *h;
	MPI_Comm real;

	while ((h = gck_mpi_first_that(GCK_MPI_COMM, is_over, NULL))) {
		real = h->real;
		gck_mpi_real.Comm_free(&real);
		forget(h->body);
	}
}

static bool is_made(MPI_Comm comm)
{
	const struct gck_mpi_handle *h = (const void *)comm;

	return gck_mpi_is(h, GCK_MPI_COMM) && !(h->flags & GCK_MPI_PREDEFINED);
}

/* All ranks free it, but operations may be pending on it, in some; there it goes on to live, out of
 * the program's sight, until they are over: sweep. */
static int free_it(MPI_Comm comm)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(comm);
	MPI_Comm real;
	int rc = MPI_SUCCESS;

	gck_mpi_clock_tick(&c->clock);
	gck_mpi_comm_sweep();
	c->freed = in_use(comm);
	if (!c->freed) {
		real = GCK_MPI_REAL_COMM(comm);
		rc = gck_mpi_real.Comm_free(&real);
		if (rc) {
			gck_mpi_comm_failed(comm, rc);
			return rc;
		}
	}
	gck_mpi_clock_remove(&c->clock);
	if (!c->freed)
		forget(c);
	return rc;
}

/* Freeing what may not be: the real library says why. */
static int free_wrong(MPI_Comm *comm, int (*real_free)(MPI_Comm *))
{
	MPI_Comm real = comm ? GCK_MPI_REAL_COMM(*comm) : NULL;

	return real_free(comm ? &real : NULL);
}

GCK_MPI_FUNCTION(Comm_free, (MPI_Comm *comm))
{
	MPI_Comm was = comm ? *comm : MPI_COMM_NULL;
	int rc = is_made(was) ? gck_mpi_attributes_delete(was) : MPI_SUCCESS;

	if (rc)
		return gck_mpi_error(was, rc, "MPI_Comm_free");
	gck_mpi_enter();
	rc = is_made(was) ? free_it(was) : free_wrong(comm, gck_mpi_real.Comm_free);
	if (!rc)
		*comm = MPI_COMM_NULL;
	gck_mpi_leave();
	return gck_mpi_error(rc ? was : NULL, rc, "MPI_Comm_free");
}

static void poll_one(struct gck_mpi_request *r, void *comm)
{
	if (r->comm == comm && r->state == GCK_MPI_REQUEST_ACTIVE)
		gck_mpi_request_poll(r);
}

/* Waits for what is pending, unlike free; before the tick, for it parks. */
static int disconnect(MPI_Comm comm)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(comm);
	MPI_Comm real;
	int rc;

	while (gck_mpi_requests_on(comm)) {
		gck_mpi_request_each(poll_one, comm);
		gck_mpi_park_if_closed();
	}
	gck_mpi_clock_tick(&c->clock);
	real = GCK_MPI_REAL_COMM(comm);
	/* Within a world it is a barrier and a free, in Open MPI too; ours keeps what persistent
	 * requests need of it. */
	rc = c->dynamic ? gck_mpi_real.Comm_disconnect(&real) : gck_mpi_real.Barrier(real);
	if (rc) {
		gck_mpi_comm_failed(comm, rc);
		return rc;
	}
	if (!c->dynamic)
		return free_it(comm);
	gck_mpi_clock_remove(&c->clock);
	forget(c);
	return rc;
}

GCK_MPI_FUNCTION(Comm_disconnect, (MPI_Comm *comm))
{
	MPI_Comm was = comm ? *comm : MPI_COMM_NULL;
	int rc = is_made(was) ? gck_mpi_attributes_delete(was) : MPI_SUCCESS;

	if (rc)
		return gck_mpi_error(was, rc, "MPI_Comm_disconnect");
	gck_mpi_enter();
	rc = is_made(was) ? disconnect(was) : free_wrong(comm, gck_mpi_real.Comm_disconnect);
	if (!rc)
		*comm = MPI_COMM_NULL;
	gck_mpi_leave();
	return gck_mpi_error(rc ? was : NULL, rc, "MPI_Comm_disconnect");
}
