/* SPDX-License-Identifier: Apache-2.0
 * The program's operations: many at a time, with its own datatypes, freed while in use. */
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

#define OPERATIONS 40

static MPI_Datatype pair, seen;
static int calls, sizes, known;

/* (a, b) o (c, d) = (ac, ad + b): not commutative. */
static void affine(void *in, void *inout, int *length, MPI_Datatype *type)
{
	int *a = in, *c = inout, size;

	for (int i = 0; i < *length; i++, a += 2, c += 2) {
		c[1] = a[0] * c[1] + a[1];
		c[0] = a[0] * c[0];
	}
	MPI_Type_size(*type, &size);
	sizes += size;
	known += *type == pair;
	seen = *type;
	calls++;
}

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
	for (int i = 0; i < *length; i++)
		((int *)inout)[i] += ((int *)in)[i];
	known += *type == MPI_INT;
	calls++;
}

static void subtract(void *in, void *inout, int *length, MPI_Datatype *type)
{
	for (int i = 0; i < *length; i++)
		((int *)inout)[i] -= ((int *)in)[i];
	known += *type == MPI_INT;
	calls++;
}

static void local(const char *when, MPI_Op *ops)
{
	int a[2] = {3, 4}, b[2] = {5, 6};

	calls = sizes = known = 0;
	MPI_Reduce_local(a, b, 1, pair, ops[0]);
	say("%s: affine %d %d, %d calls, size %d, known %d", when, b[0], b[1], calls, sizes, known);
	for (int i = 1; i < OPERATIONS; i++)
		MPI_Reduce_local(a, b, 2, MPI_INT, ops[i]);
	say("%s: then %d %d, %d calls, known %d", when, b[0], b[1], calls, known);
}

static void over_ranks(const char *when, MPI_Op op)
{
	int rank, mine[2], all[2] = {0, 0}, before[2] = {0, 0};

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	mine[0] = rank + 2;
	mine[1] = rank + 1;
	MPI_Reduce(mine, all, 1, pair, op, 0, MPI_COMM_WORLD);
	MPI_Scan(mine, before, 1, pair, op, MPI_COMM_WORLD);
	say("%s: reduced %d %d, scanned %d %d", when, all[0], all[1], before[0], before[1]);
}

/* The program may free all objects that a pending operation uses. */
static void freed_meanwhile(void)
{
	int rank, mine[4], all[4] = {0, 0, 0, 0};
	MPI_Datatype quad;
	MPI_Request request;
	MPI_Op op, another;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < 4; i++)
		mine[i] = rank + 1 + i;
	MPI_Type_dup(pair, &quad);
	MPI_Op_create(affine, 0, &op);
	MPI_Iallreduce(mine, all, 2, quad, op, MPI_COMM_WORLD, &request);
	MPI_Op_free(&op);
	MPI_Type_free(&quad);
	MPI_Op_create(subtract, 1, &another);
	cycle();
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Op_free(&another);
	say("freed meanwhile: %d %d %d %d", all[0], all[1], all[2], all[3]);
}

int test_operations(int argc, char **argv)
{
	MPI_Op ops[OPERATIONS], op = MPI_SUM;
	int commutes, rank;

	(void)argc, (void)argv;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Op_create(affine, 0, &ops[0]);
	for (int i = 1; i < OPERATIONS; i++)
		MPI_Op_create(i % 3 ? add : subtract, 1, &ops[i]);
	for (int round = 0; round < 3; round++) {
		if (rank == 0)
			local(round ? "after a cycle" : "new", ops);
		over_ranks(round ? "after a cycle" : "new", ops[0]);
		freed_meanwhile();
		MPI_Op_commutative(ops[round], &commutes);
		say("commutes: %d", commutes);
		/* leave gaps, which are reused */
		MPI_Op_free(&ops[5 + round]);
		MPI_Op_create(add, 1, &ops[5 + round]);
		cycle();
	}
	MPI_Op_commutative(MPI_SUM, &commutes);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	say("MPI_SUM commutes: %d; it is freed: %d; not a function: %d; null: %d", commutes,
		    MPI_Op_free(&op), MPI_Op_create(NULL, 1, &ops[0]),
		    MPI_Op_commutative(MPI_OP_NULL, &commutes));
	return 0;
}
