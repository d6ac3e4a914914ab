/* SPDX-License-Identifier: Apache-2.0
 * Info objects: copies of their keys and values, and restart. MPI's functions on them are
 * generated. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/wrap.h"
#include "shim/mpi/real.h"
#include "shim/mpi/types/info.h"

struct gck_mpi_info_snapshot {
	int n;
	struct {
		char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	} v[];
};

static int read_all(MPI_Info real, struct gck_mpi_info_snapshot *h)
{
	int rc = MPI_SUCCESS, there;

	for (int i = 0; !rc && i < h->n; i++) {
		rc = gck_mpi_real.Info_get_nthkey(real, i, h->v[i].key);
		if (!rc)
			rc = gck_mpi_real.Info_get(real, h->v[i].key, MPI_MAX_INFO_VAL,
						   h->v[i].value, &there);
	}
	return rc;
}

int gck_mpi_info_snapshot_save(MPI_Info real, struct gck_mpi_info_snapshot **hints)
{
	struct gck_mpi_info_snapshot *h = NULL;
	int n = 0, rc = gck_mpi_real.Info_get_nkeys(real, &n);

	if (!rc && n) {
		h = calloc(1, sizeof *h + (size_t)n * sizeof h->v[0]);
		rc = h ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	}
	if (h) {
		h->n = n;
		rc = read_all(real, h);
	}
	gck_mpi_real.Info_free(&real);
	if (rc)
		free(h);
	else
		*hints = h;
	return rc;
}

int gck_mpi_info_snapshot_make(const struct gck_mpi_info_snapshot *h, MPI_Info *real)
{
	int rc = gck_mpi_real.Info_create(real);

	for (int i = 0; !rc && i < h->n; i++)
		rc = gck_mpi_real.Info_set(*real, h->v[i].key, h->v[i].value);
	return rc;
}

void gck_mpi_info_snapshot_free(struct gck_mpi_info_snapshot *h)
{
	free(h);
}

/* ---- restart -------------------------------------------------------------------------------- */

static struct saved {
	struct gck_mpi_handle *h;
	struct gck_mpi_info_snapshot *hints; /* NULL: no keys */
} *saved;
static size_t nsaved;

MPI_Info gck_mpi_info_of_real(MPI_Info real)
{
	return gck_mpi_wrap(GCK_MPI_INFO, real);
}

static void free_saved(void)
{
	for (size_t i = 0; i < nsaved; i++)
		gck_mpi_info_snapshot_free(saved[i].hints);
	free(saved);
	saved = NULL;
	nsaved = 0;
}

static int save_one(struct gck_mpi_handle *h, struct saved *s)
{
	MPI_Info copy;
	int rc = gck_mpi_real.Info_dup(h->real, &copy);

	s->h = h;
	return rc == MPI_SUCCESS ? gck_mpi_info_snapshot_save(copy, &s->hints) : rc;
}

static int save(struct gck_error *err)
{
	size_t n = 0;

	free_saved();
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_INFO); h; h = h->next)
		n++;
	saved = calloc(n, sizeof(*saved));
	if (n && !saved)
		return gck_fail(err, ENOMEM, "no memory to save %zu MPI info objects", n);
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_INFO); h; h = h->next) {
		int rc = save_one(h, &saved[nsaved++]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI info object %zu of %zu cannot be read "
					"from the MPI library: MPI error %d", nsaved, n, rc);
	}
	return 0;
}

static int rebuild(struct gck_error *err)
{
	for (size_t i = 0; i < nsaved; i++) {
		MPI_Info real;
		int rc = saved[i].hints ? gck_mpi_info_snapshot_make(saved[i].hints, &real) :
					  gck_mpi_real.Info_create(&real);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI info object %zu of %zu cannot be made "
					"again: MPI error %d", i + 1, nsaved, rc);
		gck_mpi_handle_set_real(saved[i].h, real);
	}
	free_saved();
	return 0;
}

const struct gck_mpi_participant gck_mpi_info_participant = {"info", save, rebuild, NULL};
