/* SPDX-License-Identifier: Apache-2.0
 * Random trees of datatypes: their description and packed data before and after a cycle. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

#define LIVE 12

static uint64_t state;

static int pick(int n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (int)((state >> 33) % (unsigned)n);
}

static MPI_Datatype leaf(void)
{
	const MPI_Datatype leaves[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_FLOAT_INT,
				       MPI_C_DOUBLE_COMPLEX, MPI_LONG_DOUBLE, MPI_UINT16_T};

	return leaves[pick(sizeof(leaves) / sizeof(leaves[0]))];
}

static MPI_Datatype tree(int depth);

static void free_made(MPI_Datatype *type)
{
	int n[3], combiner;

	MPI_Type_get_envelope(*type, &n[0], &n[1], &n[2], &combiner);
	if (combiner != MPI_COMBINER_NAMED)
		MPI_Type_free(type);
}

static MPI_Datatype structure(int depth)
{
	MPI_Datatype parts[3], made;
	MPI_Aint at[3], lb, extent, end = pick(32);
	int lengths[3], n = 1 + pick(3);

	for (int i = 0; i < n; i++) {
		parts[i] = tree(depth - 1);
		lengths[i] = pick(3);
		MPI_Type_get_extent(parts[i], &lb, &extent);
		at[i] = end - lb;
		end += (extent > 0 ? extent : -extent) * (lengths[i] + 1) + pick(16);
	}
	MPI_Type_create_struct(n, lengths, at, parts, &made);
	for (int i = 0; i < n; i++)
		free_made(&parts[i]);
	return made;
}

static MPI_Datatype subarray(MPI_Datatype of)
{
	int dims = 1 + pick(3), sizes[3], subsizes[3], starts[3];
	MPI_Datatype made;

	for (int i = 0; i < dims; i++) {
		sizes[i] = 1 + pick(4);
		subsizes[i] = 1 + pick(sizes[i]);
		starts[i] = pick(sizes[i] - subsizes[i] + 1);
	}
	MPI_Type_create_subarray(dims, sizes, subsizes, starts,
				 pick(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, of, &made);
	return made;
}

static MPI_Datatype darray(MPI_Datatype of)
{
	const int how[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
	int sizes[2] = {2 + pick(5), 2 + pick(5)}, processes[2] = {2, 2};
	int distributions[2] = {how[pick(2)], how[pick(2)]};
	int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
	MPI_Datatype made;

	/* Open MPI refuses types without contents */
	if (MPI_Type_create_darray(4, pick(4), 2, sizes, distributions, arguments, processes,
				   pick(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, of, &made))
		MPI_Type_dup(of, &made);
	return made;
}

static MPI_Datatype around(MPI_Datatype of)
{
	int lengths[3] = {pick(3), 1 + pick(2), pick(2)}, at[3] = {0, 4 + pick(3), 12 + pick(3)};
	MPI_Aint lb, extent, bytes_at[3] = {0};
	MPI_Datatype made;

	MPI_Type_get_extent(of, &lb, &extent);
	for (int i = 1; i < 3; i++)
		bytes_at[i] = bytes_at[i - 1] + 4 * (extent > 0 ? extent : -extent) + pick(9);
	switch (pick(11)) {
	case 0:
		MPI_Type_contiguous(pick(4), of, &made);
		return made;
	case 1:
		MPI_Type_vector(1 + pick(3), 1 + pick(2), 2 + pick(3), of, &made);
		return made;
	case 2:
		MPI_Type_create_hvector(1 + pick(3), 1, bytes_at[1], of, &made);
		return made;
	case 3:
		MPI_Type_indexed(3, lengths, at, of, &made);
		return made;
	case 4:
		MPI_Type_create_hindexed(3, lengths, bytes_at, of, &made);
		return made;
	case 5:
		MPI_Type_create_indexed_block(3, 1 + pick(2), at, of, &made);
		return made;
	case 6:
		MPI_Type_create_hindexed_block(3, 1 + pick(2), bytes_at, of, &made);
		return made;
	case 7:
		MPI_Type_create_resized(of, lb - pick(8), extent + pick(64), &made);
		return made;
	case 8:
		MPI_Type_dup(of, &made);
		return made;
	case 9:
		return subarray(of);
	default:
		return darray(of);
	}
}

static MPI_Datatype tree(int depth)
{
	MPI_Datatype of, made;

	if (depth == 0)
		return leaf();
	if (pick(4) == 0)
		return structure(depth);
	of = tree(depth - 1);
	made = around(of);
	free_made(&of);
	return made;
}

/* A type whose sizes are small enough for the memory. */
static MPI_Datatype sensible(int depth)
{
	for (;;) {
		MPI_Datatype type = tree(depth);
		MPI_Aint lb, extent;

		MPI_Type_get_true_extent(type, &lb, &extent);
		if (extent < 1 << 20)
			return type;
		free_made(&type);
	}
}

int test_trees(int argc, char **argv)
{
	int first = argc > 0 ? atoi(argv[0]) : 1, seeds = argc > 1 ? atoi(argv[1]) : 1;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int seed = first; seed < first + seeds; seed++) {
		MPI_Datatype live[LIVE];
		char *before[LIVE];
		int same = 0;

		state = (uint64_t)seed * 2654435761u;
		for (int i = 0; i < LIVE; i++) {
			live[i] = sensible(1 + pick(4));
			MPI_Type_commit(&live[i]);
			before[i] = describe(live[i]);
			say("seed %d type %d: %s", seed, i, before[i]);
		}
		cycle();
		for (int i = 0; i < LIVE; i++) {
			char *after = describe(live[i]);

			same += !strcmp(before[i], after);
			if (strcmp(before[i], after))
				say("became: %s", after);
			free(before[i]);
			free(after);
			free_made(&live[i]);
		}
		say("seed %d: %d of %d the same", seed, same, LIVE);
	}
	return 0;
}
