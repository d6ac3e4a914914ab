/* SPDX-License-Identifier: Apache-2.0
 * The state of communicators: making and freeing it. */
#include "config.h"

#include "shim/mpi/comm/comm.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/types/info.h"

/* A communicator that the program makes. */
struct made {
	struct gck_mpi_handle h;
	struct gck_mpi_comm body;
};

static struct gck_mpi_comm world, self;
struct gck_mpi_comm gck_mpi_comm_dummy;

static void clear(struct gck_mpi_comm *c)
{
	if (c->peers != c->local)
		free(c->peers);
	free(c->local);
	free(c->sent);
	free(c->topology);
	gck_mpi_info_snapshot_free(c->hints);
}

/* ---- predefined communicators --------------------------------------------------------------- */

static int init(struct gck_mpi_comm *c, MPI_Comm handle, uint64_t id)
{
	struct gck_mpi_handle *h = (void *)handle;

	if (gck_mpi_comm_ask(c, h->real))
		return -1;
	c->handle = handle;
	h->body = c;
	c->clock.id = id;
	c->clock.ranks = (unsigned)c->size;
	gck_mpi_clock_add(&c->clock);
	return 0;
}

int gck_mpi_comm_init(struct gck_error *err)
{
	if (init(&world, MPI_COMM_WORLD, 1) ||
	    init(&self, MPI_COMM_SELF, gck_mpi_mix(2, (unsigned)world.rank)))
		return gck_fail(err, ENOMEM,
				"the ranks of MPI_COMM_WORLD cannot be listed (no memory?)");
	return 0;
}

/* ---- making --------------------------------------------------------------------------------- */

int gck_mpi_comm_quiet(MPI_Comm real)
{
	MPI_Errhandler quiet = gck_mpi_real_handle(MPI_ERRORS_RETURN, GCK_MPI_ERRHANDLER);

	return gck_mpi_real.Comm_set_errhandler(real, quiet);
}

/* Makes one seed from those of the two sides of an intercommunicator, or of the ranks of a group;
 * the result is the same in all ranks. */
static int agree(const struct gck_mpi_comm *c, MPI_Comm real, uint64_t *seed)
{
	uint64_t other;
	int rc = gck_mpi_real.Allreduce(seed, &other, 1, GCK_MPI_REAL_TYPE(MPI_UINT64_T),
					GCK_MPI_REAL_OP(MPI_MAX), real);

	if (!rc && c->inter && *seed < other)
		*seed = gck_mpi_mix(*seed, other);
	else if (!rc)
		*seed = c->inter ? gck_mpi_mix(other, *seed) : other;
	return rc;
}

/* A communicator with ranks of another world has no clock: no checkpoint includes it. */
static int begin_clock(struct gck_mpi_comm *c, const struct gck_mpi_birth *b)
{
	uint64_t seed = b->seed;
	int rc = MPI_SUCCESS;

	if (c->dynamic)
		return MPI_SUCCESS;
	if (b->apart)
		rc = agree(c, b->real, &seed);
	c->clock.id = gck_mpi_mix(seed, gck_mpi_comm_members(c));
	c->clock.ranks = (unsigned)(c->size + c->remote_size);
	if (!rc && !b->unborn)
		gck_mpi_clock_add(&c->clock);
	return rc;
}

static struct made *new_made(const struct gck_mpi_birth *b, const struct gck_mpi_comm *like,
			     int *rc)
{
	struct made *m = gck_mpi_handle_new(GCK_MPI_COMM, sizeof *m, b->real);
	struct gck_mpi_comm *c;

	*rc = MPI_ERR_NO_MEM;
	if (!m)
		return NULL;
	c = &m->body;
	c->handle = (MPI_Comm)m;
	c->with_topology = b->with_topology;
	*rc = b->real ? gck_mpi_comm_quiet(b->real) : MPI_SUCCESS;
	if (!*rc)
		*rc = like ? gck_mpi_comm_copy(c, like) : gck_mpi_comm_ask(c, b->real);
	if (!*rc)
		*rc = begin_clock(c, b);
	if (!*rc) {
		m->h.body = c;
		return m;
	}
	clear(c);
	gck_mpi_handle_free(m);
	return NULL;
}

int gck_mpi_comm_made(const struct gck_mpi_birth *b, const struct gck_mpi_comm *like,
		      MPI_Comm *newcomm)
{
	MPI_Comm real = b->real;
	struct made *m;
	int rc;

	*newcomm = MPI_COMM_NULL;
	if (real == gck_mpi_real_null[GCK_MPI_COMM])
		return MPI_SUCCESS;
	m = new_made(b, like, &rc);
	if (!m && real)
		gck_mpi_real.Comm_free(&real);
	if (!m)
		return rc;
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

/* The real library checks arguments first, so after these errors the rank took no part. */
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

/* ---- freeing -------------------------------------------------------------------------------- */

void gck_mpi_comm_forget(struct gck_mpi_comm *c)
{
	MPI_Comm handle = c->handle;

	clear(c);
	gck_mpi_handle_free((void *)handle);
}
