/* SPDX-License-Identifier: Apache-2.0
 * Datatypes over a restart. */
#include <stdlib.h>

#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/real.h"
#include "shim/mpi/types/recipe.h"

static struct saved {
	struct gck_mpi_handle *h;
	struct gck_mpi_recipe *recipe;
	char name[MPI_MAX_OBJECT_NAME]; /* what the real library calls it */
} *saved;
static size_t nsaved;

static void forget(void)
{
	for (size_t i = 0; i < nsaved; i++)
		gck_mpi_recipe_free(saved[i].recipe);
	free(saved);
	saved = NULL;
	nsaved = 0;
}

static int save_one(struct gck_mpi_handle *h, struct saved *s)
{
	int length, rc = gck_mpi_recipe_read(h->real, &s->recipe);

	s->h = h;
	return rc == MPI_SUCCESS ? gck_mpi_real.Type_get_name(h->real, s->name, &length) : rc;
}

static int save(struct gck_error *err)
{
	size_t n = 0;

	forget();
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_DATATYPE); h; h = h->next)
		n++;
	saved = calloc(n, sizeof(*saved));
	if (n && !saved)
		return gck_fail(err, ENOMEM, "no memory to save %zu MPI datatypes", n);
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_DATATYPE); h; h = h->next) {
		int rc = save_one(h, &saved[nsaved++]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI datatype %zu of %zu (%s) cannot be read "
					"from the MPI library: MPI error %d", nsaved, n,
					saved[nsaved - 1].name, rc);
	}
	return 0;
}

static int make(const struct saved *s)
{
	MPI_Datatype real;
	bool owned;
	int rc = gck_mpi_recipe_make(s->recipe, &real, &owned);

	if (rc != MPI_SUCCESS)
		return rc;
	gck_mpi_handle_set_real(s->h, real);
	if (owned && s->h->flags & GCK_MPI_COMMITTED)
		rc = gck_mpi_real.Type_commit(&real);
	if (rc == MPI_SUCCESS && owned)
		rc = gck_mpi_real.Type_set_name(real, s->name);
	return rc;
}

static int rebuild(struct gck_error *err)
{
	for (size_t i = 0; i < nsaved; i++) {
		int rc = make(&saved[i]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI datatype %zu of %zu (%s, combiner %d) "
					"cannot be made again: MPI error %d", i + 1, nsaved,
					saved[i].name, saved[i].recipe->combiner, rc);
	}
	forget();
	return 0;
}

const struct gck_mpi_part gck_mpi_datatype_part = {"datatype", save, rebuild, NULL};
