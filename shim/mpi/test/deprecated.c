/* SPDX-License-Identifier: Apache-2.0
 * Functions that MPI 3 deprecated or removed and old programs call, with and without the stand-in.
 * One rank. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stddef.h>
#include <string.h>

#include "test/support/tap.h"

static int copies, deletes, errors;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)keyval;
	copies += comm != MPI_COMM_NULL && extra == &copies;
	*(void **)out = in;
	*flag = 1;
	return MPI_SUCCESS;
}

static int drop(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)keyval;
	(void)value;
	deletes += comm != MPI_COMM_NULL && extra == &copies;
	return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
	int class;

	MPI_Error_class(*code, &class);
	errors += *comm != MPI_COMM_NULL && class == MPI_ERR_COUNT;
}

static void attributes(void)
{
	int keyval = MPI_KEYVAL_INVALID, value, flag = 0;
	void *got = NULL;
	MPI_Comm dup;

	is_int(MPI_Keyval_create(copy, drop, &keyval, &copies), MPI_SUCCESS, "MPI_Keyval_create");
	is_int(MPI_Attr_put(MPI_COMM_SELF, keyval, &value), MPI_SUCCESS, "MPI_Attr_put");
	MPI_Comm_dup(MPI_COMM_SELF, &dup);
	is_int(copies, 1, "MPI_Comm_dup calls the copy function");
	MPI_Attr_get(dup, keyval, &got, &flag);
	ok(all_of(flag, got == &value), "MPI_Attr_get finds the copied attribute");
	is_int(MPI_Attr_delete(dup, keyval), MPI_SUCCESS, "MPI_Attr_delete");
	is_int(deletes, 1, "MPI_Attr_delete calls the delete function");
	MPI_Comm_free(&dup);
	MPI_Attr_delete(MPI_COMM_SELF, keyval);
	is_int(deletes, 2, "the delete function is called for each attribute");
	is_int(MPI_Keyval_free(&keyval), MPI_SUCCESS, "MPI_Keyval_free");
	is_int(keyval, MPI_KEYVAL_INVALID, "a freed key value is invalid");
	MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &keyval, NULL);
	MPI_Attr_put(MPI_COMM_SELF, keyval, &value);
	MPI_Comm_dup(MPI_COMM_SELF, &dup);
	MPI_Attr_get(dup, keyval, &got, &flag);
	ok(!flag, "MPI_NULL_COPY_FN copies nothing");
	MPI_Comm_free(&dup);
	MPI_Keyval_free(&keyval);
}

static void error_handlers(void)
{
	MPI_Errhandler made, before, now;
	int n = 0;

	is_int(MPI_Errhandler_get(MPI_COMM_SELF, &before), MPI_SUCCESS, "MPI_Errhandler_get");
	is_int(MPI_Errhandler_create(handler, &made), MPI_SUCCESS, "MPI_Errhandler_create");
	is_int(MPI_Errhandler_set(MPI_COMM_SELF, made), MPI_SUCCESS, "MPI_Errhandler_set");
	MPI_Send(&n, -1, MPI_INT, 0, 0, MPI_COMM_SELF);
	is_int(errors, 1, "the handler is called");
	MPI_Errhandler_get(MPI_COMM_SELF, &now);
	ok(now == made, "MPI_Errhandler_get returns the handler");
	MPI_Errhandler_free(&now);
	MPI_Errhandler_set(MPI_COMM_SELF, before);
	MPI_Errhandler_free(&made);
	MPI_Errhandler_free(&before);
}

struct pair {
	int n;
	double x;
};

static void types(void)
{
	struct pair pairs[2] = {{1, 0.5}, {2, 0.25}}, got[2];
	int lengths[2] = {1, 1}, n;
	MPI_Aint at[2], extent = 0, lb = -1, ub = -1;
	MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, made, row, sparse;

	MPI_Address(&pairs[0].n, &at[0]);
	MPI_Address(&pairs[0].x, &at[1]);
	is_int(at[1] - at[0], offsetof(struct pair, x), "MPI_Address");
	at[1] -= at[0];
	at[0] = 0;
	is_int(MPI_Type_struct(2, lengths, at, parts, &made), MPI_SUCCESS, "MPI_Type_struct");
	MPI_Type_extent(made, &extent);
	is_int(extent, sizeof(struct pair), "MPI_Type_extent");
	MPI_Type_lb(made, &lb);
	MPI_Type_ub(made, &ub);
	ok(all_of(lb == 0, ub == sizeof(struct pair)), "MPI_Type_lb and MPI_Type_ub");
	is_int(MPI_Type_hvector(2, 1, sizeof(struct pair), made, &row), MPI_SUCCESS,
	       "MPI_Type_hvector");
	at[1] = 16;
	is_int(MPI_Type_hindexed(2, lengths, at, MPI_INT, &sparse), MPI_SUCCESS,
	       "MPI_Type_hindexed");
	MPI_Type_commit(&row);
	memset(got, 0, sizeof(got));
	MPI_Sendrecv(pairs, 1, row, 0, 0, got, 1, row, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
	ok(all_of(got[1].n == 2, got[1].x == 0.25, got[0].x == 0.5),
	   "messages of the datatypes have the data");
	MPI_Type_size(sparse, &n);
	is_int(n, 2 * (long long)sizeof(int), "the size of the hindexed datatype");
	MPI_Type_free(&made);
	MPI_Type_free(&row);
	MPI_Type_free(&sparse);
}

static void extensions(void)
{
	char bound[OMPI_AFFINITY_STRING_MAX] = "", current[OMPI_AFFINITY_STRING_MAX] = "",
	     exists[OMPI_AFFINITY_STRING_MAX] = "";

	is_int(OMPI_Affinity_str(OMPI_AFFINITY_RSRC_STRING_FMT, bound, current, exists),
	       MPI_SUCCESS, "OMPI_Affinity_str");
	ok(exists[0] != '\0', "OMPI_Affinity_str returns a text");
	is_int(MPIX_Query_cuda_support(), 0, "MPIX_Query_cuda_support: Debian's Open MPI has none");
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	attributes();
	error_handlers();
	types();
	extensions();
	MPI_Finalize();
	return tap_done();
}
