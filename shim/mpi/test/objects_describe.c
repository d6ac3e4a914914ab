/* SPDX-License-Identifier: Apache-2.0
 * All that MPI reports about a datatype. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

static uint64_t hash(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = 1469598103934665603u;

	while (n--)
		h = (h ^ *p++) * 1099511628211u;
	return h;
}

static void contents(FILE *out, MPI_Datatype type)
{
	int ni, na, nt, combiner, *integers;
	MPI_Datatype *types;
	MPI_Aint *addresses;
	char name[MPI_MAX_OBJECT_NAME];
	int length;

	MPI_Type_get_envelope(type, &ni, &na, &nt, &combiner);
	if (combiner == MPI_COMBINER_NAMED) {
		MPI_Type_get_name(type, name, &length);
		fprintf(out, " %s", name);
		return;
	}
	integers = malloc(sizeof(*integers) * (size_t)(ni + 1));
	addresses = malloc(sizeof(*addresses) * (size_t)(na + 1));
	types = malloc(sizeof(MPI_Datatype) * (size_t)(nt + 1));
	MPI_Type_get_contents(type, ni, na, nt, integers, addresses, types);
	fprintf(out, " (%d:", combiner);
	for (int i = 0; i < ni; i++)
		fprintf(out, " %d", integers[i]);
	for (int i = 0; i < na; i++)
		fprintf(out, " @%ld", (long)addresses[i]);
	for (int i = 0; i < nt; i++) {
		contents(out, types[i]);
		MPI_Type_get_envelope(types[i], &ni, &na, &length, &combiner);
		if (combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
		    combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
			MPI_Type_free(&types[i]);
	}
	fprintf(out, ")");
	free(integers);
	free(addresses);
	free(types);
}

/* Packs two elements from memory with a pattern and unpacks them into zeroed memory. */
static void packed(FILE *out, MPI_Datatype type)
{
	MPI_Aint lb, extent, true_lb, true_extent, first, last, external;
	int size, capacity, at = 0, back = 0;
	unsigned char *memory, *clean, *text;

	MPI_Type_get_extent(type, &lb, &extent);
	MPI_Type_get_true_extent(type, &true_lb, &true_extent);
	first = true_lb < true_lb + extent ? true_lb : true_lb + extent;
	last = (true_lb > true_lb + extent ? true_lb : true_lb + extent) + true_extent;
	memory = malloc((size_t)(last - first) + 1);
	clean = calloc(1, (size_t)(last - first) + 1);
	for (MPI_Aint i = 0; i < last - first; i++)
		memory[i] = (unsigned char)(i * 7 + i / 251);
	MPI_Pack_size(2, type, MPI_COMM_WORLD, &capacity);
	text = calloc(1, (size_t)capacity + 1);
	MPI_Pack(memory - first, 2, type, text, capacity, &at, MPI_COMM_WORLD);
	MPI_Type_size(type, &size);
	fprintf(out, " packed %d/%d/%d:%016" PRIx64, at, capacity, size, hash(text, (size_t)at));
	MPI_Unpack(text, at, &back, clean - first, 2, type, MPI_COMM_WORLD);
	fprintf(out, " unpacked %d:%016" PRIx64, back, hash(clean, (size_t)(last - first)));
	if (MPI_Pack_external_size("external32", 2, type, &external) == MPI_SUCCESS)
		fprintf(out, " external %ld", (long)external);
	free(memory);
	free(clean);
	free(text);
}

char *describe(MPI_Datatype type)
{
	char *text, name[MPI_MAX_OBJECT_NAME];
	size_t length;
	FILE *out = open_memstream(&text, &length);
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Count size_x, lb_x, extent_x, true_lb_x, true_extent_x;
	int size, n;

	MPI_Type_size(type, &size);
	MPI_Type_size_x(type, &size_x);
	MPI_Type_get_extent(type, &lb, &extent);
	MPI_Type_get_extent_x(type, &lb_x, &extent_x);
	MPI_Type_get_true_extent(type, &true_lb, &true_extent);
	MPI_Type_get_true_extent_x(type, &true_lb_x, &true_extent_x);
	MPI_Type_get_name(type, name, &n);
	fprintf(out, "<%s> %d/%lld %ld+%ld/%lld+%lld %ld+%ld/%lld+%lld", name, size,
		(long long)size_x, (long)lb, (long)extent, (long long)lb_x, (long long)extent_x,
		(long)true_lb, (long)true_extent, (long long)true_lb_x, (long long)true_extent_x);
	contents(out, type);
	/* packing needs a committed type, but the type itself must not be committed here */
	MPI_Type_dup(type, &type);
	MPI_Type_commit(&type);
	packed(out, type);
	MPI_Type_free(&type);
	fclose(out);
	return text;
}
