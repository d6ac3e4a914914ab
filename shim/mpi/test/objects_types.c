/* SPDX-License-Identifier: Apache-2.0
 * Each constructor of a datatype, freed constituents, names, Fortran 90's kinds. */
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

#define TYPES 32

static MPI_Datatype types[TYPES];
static int ntypes;

static MPI_Datatype *next(void)
{
	return &types[ntypes++];
}

static void simple(void)
{
	const int lengths[3] = {2, 0, 3}, at[3] = {4, 20, 9}, block_at[3] = {5, 0, 11};
	const MPI_Aint bytes_at[3] = {40, -16, 3 * 64};

	MPI_Type_contiguous(5, MPI_INT, next());
	MPI_Type_contiguous(0, MPI_INT, next());
	MPI_Type_vector(3, 2, 5, MPI_DOUBLE, next());
	MPI_Type_vector(3, 1, -2, MPI_SHORT, next());
	MPI_Type_create_hvector(4, 3, 100, MPI_CHAR, next());
	MPI_Type_indexed(3, lengths, at, MPI_FLOAT, next());
	MPI_Type_create_hindexed(3, lengths, bytes_at, MPI_INT64_T, next());
	MPI_Type_create_indexed_block(3, 2, block_at, MPI_UNSIGNED_CHAR, next());
	MPI_Type_create_hindexed_block(3, 2, bytes_at, MPI_DOUBLE_INT, next());
	MPI_Type_create_resized(MPI_INT, -8, 24, next());
	MPI_Type_dup(MPI_LONG_DOUBLE, next());
	MPI_Type_dup(types[2], next());
}

static void arrays(void)
{
	const int sizes[3] = {6, 5, 4}, subsizes[3] = {2, 3, 2}, starts[3] = {1, 2, 0};
	const int distributions[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
				      MPI_DISTRIBUTE_NONE};
	const int arguments[3] = {MPI_DISTRIBUTE_DFLT_DARG, 2, MPI_DISTRIBUTE_DFLT_DARG};
	const int processes[3] = {2, 2, 1};

	MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, next());
	MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, next());
	MPI_Type_create_darray(4, 3, 3, sizes, distributions, arguments, processes, MPI_ORDER_C,
			       MPI_DOUBLE, next());
	MPI_Type_create_darray(4, 1, 3, sizes, distributions, arguments, processes,
			       MPI_ORDER_FORTRAN, MPI_CHAR, next());
}

/* A struct of types that are freed before it is used. */
static void nested(void)
{
	const int lengths[4] = {1, 2, 1, 3};
	const MPI_Aint at[4] = {0, 64, 512, 1024};
	MPI_Datatype parts[4] = {MPI_CHAR}, whole;

	MPI_Type_vector(2, 1, 3, MPI_INT, &parts[1]);
	MPI_Type_create_resized(parts[1], 0, 48, &parts[2]);
	MPI_Type_contiguous(2, parts[2], &parts[3]);
	MPI_Type_create_struct(4, lengths, at, parts, &whole);
	for (int i = 1; i < 4; i++)
		MPI_Type_free(&parts[i]);
	MPI_Type_contiguous(2, whole, next());
	MPI_Type_set_name(whole, "a struct with a name that is longer than MPI_MAX_OBJECT_NAME "
			  "allows it to be");
	*next() = whole;
	MPI_Type_dup(whole, next());
}

static void fortran(void)
{
	MPI_Datatype again;

	MPI_Type_create_f90_real(6, 30, next());
	MPI_Type_create_f90_real(15, 307, next());
	MPI_Type_create_f90_complex(15, MPI_UNDEFINED, next());
	MPI_Type_create_f90_integer(9, next());
	MPI_Type_create_f90_integer(9, &again);
	say("the same handle again: %d", again == types[ntypes - 1]);
	MPI_Type_contiguous(3, again, next());
	for (int class = MPI_TYPECLASS_INTEGER; class <= MPI_TYPECLASS_COMPLEX; class++)
		MPI_Type_match_size(class, 8, next());
}

static void all(char **texts, const char *when)
{
	for (int i = 0; i < ntypes; i++) {
		char *text = describe(types[i]);

		say("%s %d: %s", when, i, text);
		if (texts[i] && strcmp(texts[i], text))
			say("differs from before");
		free(texts[i]);
		texts[i] = text;
	}
}

static void errors(void)
{
	MPI_Datatype none = MPI_DATATYPE_NULL, integer = MPI_INT;
	int n[4];

	say("null type: %d %d %d", MPI_Type_contiguous(1, none, &integer), MPI_Type_size(none, n),
	    MPI_Type_commit(&none));
	integer = MPI_INT;
	say("free of a predefined one: %d", MPI_Type_free(&integer));
	integer = types[19];
	say("free of a Fortran kind: %d", MPI_Type_free(&integer));
	say("negative count: %d", MPI_Type_contiguous(-1, MPI_INT, &integer));
	say("contents of a predefined one: %d",
	    MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL));
}

/* A restart does not commit a type: an uncommitted one cannot be sent with. */
static void committed(void)
{
	int rc[3], buffer[64];
	MPI_Status status;

	MPI_Type_commit(&types[0]);
	cycle();
	for (int i = 0; i < 3; i++)
		rc[i] = MPI_Sendrecv(buffer, 1, types[i], 0, 0, buffer + 32, 1, types[i], 0, 0,
				     MPI_COMM_SELF, &status);
	say("sent with: %d %d %d", rc[0], rc[1], rc[2]);
	MPI_Get_count(&status, types[0], &rc[0]);
	MPI_Get_elements(&status, types[0], &rc[1]);
	say("count %d elements %d", rc[0], rc[1]);
}

static void statuses(void)
{
	MPI_Status status = {0};
	MPI_Count large;
	int n, cancelled;

	MPI_Status_set_elements(&status, types[0], 9);
	MPI_Get_count(&status, types[0], &n);
	MPI_Get_elements_x(&status, types[0], &large);
	MPI_Status_set_cancelled(&status, 1);
	MPI_Test_cancelled(&status, &cancelled);
	say("status: %d %lld %d", n, (long long)large, cancelled);
	MPI_Status_set_elements_x(&status, MPI_BYTE, 12345678901ll);
	MPI_Get_elements_x(&status, MPI_BYTE, &large);
	say("large: %lld", (long long)large);
}

int test_types(int argc, char **argv)
{
	char *texts[TYPES] = {NULL};

	(void)argc, (void)argv;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	simple();
	arrays();
	nested();
	fortran();
	all(texts, "new");
	cycle();
	all(texts, "after a cycle");
	committed();
	statuses();
	errors();
	for (int i = 0; i < ntypes; i++) {
		free(texts[i]);
		if (i < 19)
			MPI_Type_free(&types[i]);
	}
	cycle();
	say("freed: %d", types[0] == MPI_DATATYPE_NULL);
	return 0;
}
