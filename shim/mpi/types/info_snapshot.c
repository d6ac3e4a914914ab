/* SPDX-License-Identifier: Apache-2.0
 * Copies of the keys and values of a real info. */
#include "config.h"

#include "shim/mpi/types/info_snapshot.h"

#include <stdlib.h>

#include "shim/mpi/real.h"

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
