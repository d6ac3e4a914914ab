/* SPDX-License-Identifier: Apache-2.0
 * Groups over a restart: the real groups are made again from their world ranks. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"

/* MPI_GROUP_EMPTY is never freed. The real library counts references to its one empty group, and
 * after a restart its count does not include those of before. */
GCK_MPI_FUNCTION(Group_free, (MPI_Group *group))
{
	MPI_Group real;
	int rc = MPI_SUCCESS;

	gck_mpi_enter();
	real = group ? GCK_MPI_REAL_GROUP(*group) : NULL;
	if (!group || *group != MPI_GROUP_EMPTY)
		rc = gck_mpi_real.Group_free(group ? &real : NULL);
	if (!rc) {
		if (*group != MPI_GROUP_EMPTY)
			gck_mpi_handle_free(*group);
		*group = MPI_GROUP_NULL;
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Group_free");
}

struct saved {
	void *group; /* the handle */
	int n, *ranks;
};

static struct saved *saved;
static size_t nsaved;

static void free_saved(void)
{
	for (size_t i = 0; i < nsaved; i++)
		free(saved[i].ranks);
	free(saved);
	saved = NULL;
	nsaved = 0;
}

static int save_one(struct saved *s, struct gck_mpi_handle *h)
{
	MPI_Group copy;
	bool other = false;
	int rc;

	s->group = h;
	rc = gck_mpi_real.Group_size(h->real, &s->n);
	if (!rc)
		rc = gck_mpi_real.Group_excl(h->real, 0, NULL, &copy);
	if (rc)
		return rc;
	s->ranks = gck_mpi_comm_ranks(copy, s->n, &other);
	if (!s->ranks)
		return MPI_ERR_NO_MEM;
	return other ? MPI_ERR_GROUP : MPI_SUCCESS;
}

static int save(struct gck_error *err)
{
	struct gck_mpi_handle *h;
	size_t n = 0;
	int rc;

	free_saved();
	for (h = gck_mpi_first(GCK_MPI_GROUP); h; h = h->next)
		n++;
	saved = calloc(n + 1, sizeof *saved);
	if (!saved)
		return gck_fail(err, ENOMEM, "no memory for the ranks of %zu groups", n);
	for (h = gck_mpi_first(GCK_MPI_GROUP); h; h = h->next) {
		rc = save_one(&saved[nsaved++], h);
		if (rc == MPI_ERR_GROUP)
			return gck_fail(err, ENOTSUP,
					"a group of %d processes has processes of another world "
					"(MPI_Comm_spawn, MPI_Comm_connect): free it before the "
					"checkpoint",
					saved[nsaved - 1].n);
		if (rc)
			return gck_fail(err, ENOMEM,
					"the ranks of a group cannot be listed (no memory?)");
	}
	return 0;
}

static int rebuild(struct gck_error *err)
{
	MPI_Group world, real;
	int rc = gck_mpi_real.Comm_group(GCK_MPI_REAL_COMM(MPI_COMM_WORLD), &world);

	for (size_t i = 0; !rc && i < nsaved; i++) {
		rc = gck_mpi_real.Group_incl(world, saved[i].n, saved[i].ranks, &real);
		if (!rc)
			gck_mpi_handle_set_real(saved[i].group, real);
	}
	if (rc)
		return gck_fail(err, EIO, "a group cannot be made again after a restart: MPI error "
					  "%d",
				rc);
	gck_mpi_real.Group_free(&world);
	free_saved();
	return 0;
}

const struct gck_mpi_participant gck_mpi_group_participant = {
	.name = "groups",
	.save = save,
	.rebuild = rebuild,
};
