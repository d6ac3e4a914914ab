/* SPDX-License-Identifier: Apache-2.0
 * The names of MPI-1, which Open MPI still exports. */
#include <stdint.h>
#include <stdlib.h>

#include "shim/mpi/test/objects.h"

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm, (void)key, (void)extra;
	*(void **)out = (void *)((intptr_t)in * 2);
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm, (void)key, (void)extra;
	say("delete %ld", (long)(intptr_t)value);
	return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	say("handler: %d", *code);
}

static void types(void)
{
	MPI_Datatype parts[2] = {MPI_INT, MPI_CHAR}, made[3];
	MPI_Aint at[2] = {0, 8}, lb, ub, extent;
	int lengths[2] = {1, 3};

	MPI_Type_hvector(2, 1, 12, MPI_INT, &made[0]);
	MPI_Type_hindexed(2, lengths, at, MPI_SHORT, &made[1]);
	MPI_Type_struct(2, lengths, at, parts, &made[2]);
	cycle();
	for (int i = 0; i < 3; i++) {
		char *text = describe(made[i]);

		MPI_Type_lb(made[i], &lb);
		MPI_Type_ub(made[i], &ub);
		MPI_Type_extent(made[i], &extent);
		say("%s: %ld %ld %ld", text, (long)lb, (long)ub, (long)extent);
		free(text);
		MPI_Type_free(&made[i]);
	}
}

static void attributes(void)
{
	MPI_Comm comm, other;
	void *value;
	int key, flag;

	MPI_Keyval_create(copy, delete, &key, NULL);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Attr_put(comm, key, (void *)21);
	MPI_Comm_dup(comm, &other);
	cycle();
	MPI_Attr_get(other, key, &value, &flag);
	say("copied: %d %ld", flag, (long)(intptr_t)value);
	MPI_Attr_delete(other, key);
	MPI_Keyval_free(&key);
	MPI_Comm_free(&other);
	MPI_Comm_free(&comm);
}

int test_mpi1(int argc, char **argv)
{
	MPI_Errhandler made, got;
	MPI_Aint first, second;
	int memory[4];

	(void)argc, (void)argv;
	types();
	attributes();
	MPI_Address(&memory[0], &first);
	MPI_Get_address(&memory[3], &second);
	say("addresses: %ld %ld", (long)(second - first), (long)MPI_Aint_diff(second, first));
	MPI_Errhandler_create(handler, &made);
	MPI_Errhandler_set(MPI_COMM_WORLD, made);
	cycle();
	MPI_Errhandler_get(MPI_COMM_WORLD, &got);
	say("got: %d", got == made);
	say("returned: %d", MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER));
	return 0;
}
