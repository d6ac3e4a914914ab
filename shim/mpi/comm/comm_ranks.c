/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a communicator. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"

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
	int *from = malloc(2 * ((size_t)n + 1) * sizeof *from), *to = from ? from + n : NULL,
	    rc = -1;

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

/* Allocates the counts of messages. */
static int set_peers(struct gck_mpi_comm *c)
{
	int n = c->inter ? c->remote_size : c->size;

	c->sent = calloc((size_t)n + 1, 2 * sizeof *c->sent);
	if (!c->sent)
		return MPI_ERR_NO_MEM;
	c->received = c->sent + n;
	c->npeers = n;
	return MPI_SUCCESS;
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

int gck_mpi_comm_ask(struct gck_mpi_comm *c, MPI_Comm real)
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
	c->peers = c->local;
	rc = c->inter ? ask_remote(c, real) : MPI_SUCCESS;
	return rc ? rc : set_peers(c);
}

static int *copy_ranks(const int *ranks, int n)
{
	int *copy = malloc(((size_t)n + 1) * sizeof *copy);

	return copy ? memcpy(copy, ranks, (size_t)n * sizeof *copy) : NULL;
}

int gck_mpi_comm_copy(struct gck_mpi_comm *c, const struct gck_mpi_comm *like)
{
	c->rank = like->rank;
	c->size = like->size;
	c->inter = like->inter;
	c->dynamic = like->dynamic;
	c->remote_size = like->remote_size;
	c->local = copy_ranks(like->local, like->size);
	c->peers = like->inter ? copy_ranks(like->peers, like->remote_size) : c->local;
	return c->local && c->peers ? set_peers(c) : MPI_ERR_NO_MEM;
}

