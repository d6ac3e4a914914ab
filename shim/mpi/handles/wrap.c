/* SPDX-License-Identifier: Apache-2.0
 * What generated wrappers do with handles. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/handles/wrap.h"
#include "shim/mpi/real.h"

/* The stand-in's null handle of a kind. */
static void *null_of(enum gck_mpi_kind kind)
{
	switch (kind) {
	case GCK_MPI_COMM:
		return MPI_COMM_NULL;
	case GCK_MPI_GROUP:
		return MPI_GROUP_NULL;
	case GCK_MPI_DATATYPE:
		return MPI_DATATYPE_NULL;
	case GCK_MPI_OP:
		return MPI_OP_NULL;
	case GCK_MPI_ERRHANDLER:
		return MPI_ERRHANDLER_NULL;
	case GCK_MPI_INFO:
		return MPI_INFO_NULL;
	case GCK_MPI_REQUEST:
		return MPI_REQUEST_NULL;
	case GCK_MPI_MESSAGE:
		return MPI_MESSAGE_NULL;
	case GCK_MPI_WIN:
		return MPI_WIN_NULL;
	case GCK_MPI_FILE:
		return MPI_FILE_NULL;
	default:
		return NULL;
	}
}

void *gck_mpi_wrap(enum gck_mpi_kind kind, void *real)
{
	struct gck_mpi_handle *h;

	if (real == gck_mpi_real_null[kind])
		return null_of(kind);
	h = gck_mpi_find(kind, real);
	/* a known datatype that is not predefined comes from MPI_Type_create_f90_* */
	if (h && (h->flags & GCK_MPI_PREDEFINED || kind == GCK_MPI_DATATYPE))
		return h;
	return gck_mpi_handle_new(kind, sizeof(struct gck_mpi_handle), real);
}

void gck_mpi_real_out_(void **handle, void *real, enum gck_mpi_kind kind, int *rc)
{
	if (*rc != MPI_SUCCESS || !handle || !real)
		return;
	*handle = gck_mpi_wrap(kind, real);
	if (!*handle) {
		*handle = null_of(kind);
		*rc = MPI_ERR_NO_MEM;
	}
}

void gck_mpi_real_back_(void **handle, void *real, enum gck_mpi_kind kind)
{
	if (!handle || !gck_mpi_is(*handle, kind) || real == gck_mpi_real_of(*handle))
		return;
	if (real == gck_mpi_real_null[kind]) {
		gck_mpi_handle_free(*handle);
		*handle = null_of(kind);
	} else {
		gck_mpi_handle_set_real(*handle, real);
	}
}

void *gck_mpi_array_in(struct gck_mpi_array *a, const void *handles, long n, enum gck_mpi_kind kind)
{
	void *const *from = handles;

	a->n = n > 0 ? n : 0;
	a->kind = kind;
	a->v = a->inline_v;
	if ((size_t)a->n > sizeof(a->inline_v) / sizeof(a->inline_v[0]))
		a->v = malloc((size_t)a->n * sizeof(*a->v));
	for (long i = 0; a->v && i < a->n; i++)
		a->v[i] = from ? gck_mpi_real_handle(from[i], kind) : gck_mpi_real_null[kind];
	return a->v;
}

void gck_mpi_array_free(struct gck_mpi_array *a)
{
	if (a->v != a->inline_v)
		free(a->v);
}

long gck_mpi_size(MPI_Comm comm)
{
	int n = 0;

	return gck_mpi_real.Comm_size(GCK_MPI_REAL_COMM(comm), &n) ? 0 : n;
}

long gck_mpi_peers(MPI_Comm comm)
{
	int n = 0, inter = 0;

	if (gck_mpi_real.Comm_test_inter(GCK_MPI_REAL_COMM(comm), &inter))
		return 0;
	if (!inter)
		return gck_mpi_size(comm);
	return gck_mpi_real.Comm_remote_size(GCK_MPI_REAL_COMM(comm), &n) ? 0 : n;
}

/* The numbers of this rank's neighbours; 0 without a topology. */
static void degrees(MPI_Comm comm, int *in, int *out)
{
	MPI_Comm real = GCK_MPI_REAL_COMM(comm);
	int kind = MPI_UNDEFINED, rank, weighted;

	*in = *out = 0;
	if (gck_mpi_real.Topo_test(real, &kind))
		return;
	if (kind == MPI_CART && !gck_mpi_real.Cartdim_get(real, in))
		*out = *in *= 2;
	else if (kind == MPI_GRAPH && !gck_mpi_real.Comm_rank(real, &rank) &&
		 !gck_mpi_real.Graph_neighbors_count(real, rank, in))
		*out = *in;
	else if (kind == MPI_DIST_GRAPH)
		gck_mpi_real.Dist_graph_neighbors_count(real, in, out, &weighted);
}

long gck_mpi_indegree(MPI_Comm comm)
{
	int in, out;

	degrees(comm, &in, &out);
	return in;
}

long gck_mpi_outdegree(MPI_Comm comm)
{
	int in, out;

	degrees(comm, &in, &out);
	return out;
}
