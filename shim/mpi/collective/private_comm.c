/* SPDX-License-Identifier: Apache-2.0
 * Private communicators and hints of windows and files. */
#include "config.h"

#include "shim/mpi/collective/private_comm.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/collective/collective.h"

/* Not a dup, which would copy the topology. */
static int create_real(MPI_Comm comm, MPI_Comm *real)
{
	MPI_Comm from = GCK_MPI_REAL_COMM(comm);
	MPI_Group group;
	int rc = gck_mpi_real.Comm_group(from, &group);

	if (!rc) {
		rc = gck_mpi_real.Comm_create(from, group, real);
		gck_mpi_real.Group_free(&group);
	}
	return rc;
}

int gck_mpi_private_comm(MPI_Comm comm, MPI_Comm *own, const char *function)
{
	struct gck_mpi_birth b;
	int rc;

	gck_mpi_comm_begin_as(&b, comm, function);
	rc = create_real(comm, &b.real);
	if (rc)
		gck_mpi_comm_failed(comm, rc);
	else
		rc = gck_mpi_comm_made(&b, gck_mpi_comm_of(comm), own);
	gck_mpi_leave();
	return rc ? rc : PMPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN);
}

struct entry {
	uint64_t id;
	void *object;
};

static int by_id(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Lists this rank's objects by id, with an end entry. NULL: no memory. An object without a real one
 * is being made or freed in all ranks and is left out. */
static struct entry *list(enum gck_mpi_kind kind, MPI_Comm (*own_of)(const void *))
{
	struct entry *v;
	size_t n = 0, i = 0;

	for (struct gck_mpi_handle *h = gck_mpi_first(kind); h; h = h->next)
		n++;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return NULL;
	for (struct gck_mpi_handle *h = gck_mpi_first(kind); h; h = h->next)
		if (h->real)
			v[i++] = (struct entry){gck_mpi_private_id(own_of(h)), h};
	v[i] = (struct entry){UINT64_MAX, NULL};
	qsort(v, i, sizeof(*v), by_id);
	return v;
}

/* Finds the least id of all ranks, which is next; 0: a rank has failed. */
static int least_id(uint64_t mine, uint64_t *all)
{
	return gck_mpi_real.Allreduce(&mine, all, 1, GCK_MPI_REAL_TYPE(MPI_UINT64_T),
				      GCK_MPI_REAL_OP(MPI_MIN), GCK_MPI_REAL_COMM(MPI_COMM_WORLD));
}

int gck_mpi_private_each(enum gck_mpi_kind kind, MPI_Comm (*own_of)(const void *),
		     int (*fn)(void *object, struct gck_error *err), struct gck_error *err)
{
	struct entry *v = list(kind, own_of), *next = v;
	int rc = v ? 0 : gck_fail(err, ENOMEM, "no memory to list windows and files");

	for (;;) {
		uint64_t turn = 0;

		if (least_id(rc ? 0 : next->id, &turn) || (!turn && !rc))
			rc = gck_fail(err, EIO,
				      "windows and files cannot be made again: another rank "
				      "reports the reason");
		if (!turn || turn == UINT64_MAX)
			break;
		if (!rc && turn == next->id)
			rc = fn(next++->object, err);
	}
	free(v);
	return rc;
}

int gck_mpi_private_info(MPI_Info hints, MPI_Info *own)
{
	return hints == MPI_INFO_NULL ? PMPI_Info_create(own) : PMPI_Info_dup(hints, own);
}

int gck_mpi_private_info_merge(MPI_Info own, MPI_Info hints)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	int n = 0, found, rc;

	if (hints == MPI_INFO_NULL)
		return MPI_SUCCESS;
	rc = PMPI_Info_get_nkeys(hints, &n);
	for (int i = 0; i < n && !rc; i++) {
		rc = PMPI_Info_get_nthkey(hints, i, key);
		if (!rc)
			rc = PMPI_Info_get(hints, key, MPI_MAX_INFO_VAL, value, &found);
		if (!rc && found)
			rc = PMPI_Info_set(own, key, value);
	}
	return rc;
}
