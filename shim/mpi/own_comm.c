/* SPDX-License-Identifier: Apache-2.0
 * Communicators and hints of windows and files. */
#include "config.h"

#include "shim/mpi/own_comm.h"

#include <stdlib.h>

int gck_mpi_own_comm(MPI_Comm comm, MPI_Comm *own)
{
	MPI_Group group;
	int rc = PMPI_Comm_group(comm, &group);

	if (rc != MPI_SUCCESS)
		return rc;
	/* not a dup: that runs the program's callbacks of attributes */
	rc = PMPI_Comm_create(comm, group, own);
	PMPI_Group_free(&group);
	return rc == MPI_SUCCESS ? PMPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN) : rc;
}

struct pair {
	uint64_t id;
	struct gck_mpi_handle *h;
};

static int by_id(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

struct gck_mpi_handle **gck_mpi_by_own_id(enum gck_mpi_kind kind, MPI_Comm (*own_of)(const void *),
					  size_t *n)
{
	struct gck_mpi_handle **v;
	struct pair *pairs;
	size_t i = 0;

	*n = 0;
	for (struct gck_mpi_handle *h = gck_mpi_first(kind); h; h = h->next)
		++*n;
	pairs = calloc(*n + 1, sizeof(*pairs));
	v = calloc(*n + 1, sizeof(*v));
	if (!pairs || !v) {
		free(pairs);
		free(v);
		return NULL;
	}
	for (struct gck_mpi_handle *h = gck_mpi_first(kind); h; h = h->next)
		pairs[i++] = (struct pair){gck_mpi_own_id(own_of(h)), h};
	qsort(pairs, *n, sizeof(*pairs), by_id);
	for (i = 0; i < *n; i++)
		v[i] = pairs[i].h;
	free(pairs);
	return v;
}

int gck_mpi_own_info(MPI_Info given, MPI_Info *own)
{
	return given == MPI_INFO_NULL ? PMPI_Info_create(own) : PMPI_Info_dup(given, own);
}

int gck_mpi_own_info_merge(MPI_Info own, MPI_Info given)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	int n = 0, found, rc;

	if (given == MPI_INFO_NULL)
		return MPI_SUCCESS;
	rc = PMPI_Info_get_nkeys(given, &n);
	for (int i = 0; i < n && !rc; i++) {
		rc = PMPI_Info_get_nthkey(given, i, key);
		if (!rc)
			rc = PMPI_Info_get(given, key, MPI_MAX_INFO_VAL, value, &found);
		if (!rc && found)
			rc = PMPI_Info_set(own, key, value);
	}
	return rc;
}
