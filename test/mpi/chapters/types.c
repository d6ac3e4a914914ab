/* SPDX-License-Identifier: Apache-2.0
 * Chapter 4, datatypes. */
#include "test/mpi/chapters/chapters.h"

enum { SPACE = 256 };

static MPI_Datatype make(int kind)
{
	static const int lengths[3] = {2, 1, 3}, at[3] = {0, 4, 7}, sizes[2] = {5, 6},
			 part[2] = {2, 3}, from[2] = {1, 2};
	static const MPI_Aint bytes[3] = {0, 12, 24};
	const MPI_Datatype members[3] = {MPI_INT, MPI_DOUBLE, MPI_SHORT};
	MPI_Datatype t = MPI_DATATYPE_NULL, u;

	switch (kind) {
	case 0: MPI_Type_contiguous(3, MPI_INT, &t); break;
	case 1: MPI_Type_vector(3, 2, 4, MPI_INT, &t); break;
	case 2: MPI_Type_create_hvector(3, 2, 20, MPI_SHORT, &t); break;
	case 3: MPI_Type_indexed(3, lengths, at, MPI_INT, &t); break;
	case 4: MPI_Type_create_hindexed(3, lengths, bytes, MPI_SHORT, &t); break;
	case 5: MPI_Type_create_indexed_block(3, 2, at, MPI_INT, &t); break;
	case 6: MPI_Type_create_hindexed_block(3, 2, bytes, MPI_INT, &t); break;
	case 7:
		MPI_Type_create_struct(3, lengths, (MPI_Aint[]){0, 16, 32}, members, &t);
		break;
	case 8:
		MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_FORTRAN, MPI_INT, &t);
		break;
	case 9: MPI_Type_create_resized(MPI_DOUBLE_INT, -4, 40, &t); break;
	case 10:
		MPI_Type_vector(2, 1, 3, MPI_SHORT_INT, &u);
		MPI_Type_dup(u, &t);
		MPI_Type_free(&u);
		break;
	case 11:
		MPI_Type_create_darray(4, 1, 2, (int[]){4, 4},
				       (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
				       (int[]){MPI_DISTRIBUTE_DFLT_DARG, 1}, (int[]){2, 2},
				       MPI_ORDER_C, MPI_INT, &t);
		break;
	}
	return t;
}

enum { KINDS = 12 };

static void extents(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		MPI_Datatype t = make(kind);
		MPI_Aint v[4];
		int bytes;

		MPI_Type_size(t, &bytes);
		MPI_Type_get_extent(t, &v[0], &v[1]);
		MPI_Type_get_true_extent(t, &v[2], &v[3]);
		put(" %d:%ld,%ld,%ld,%ld", bytes, (long)v[0], (long)v[1], (long)v[2], (long)v[3]);
		MPI_Type_free(&t);
	}
}

static void contents(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		MPI_Datatype t = make(kind), inner[8];
		int n[3], combiner, ints[32];
		MPI_Aint addresses[8];

		pending();
		MPI_Type_get_envelope(t, &n[0], &n[1], &n[2], &combiner);
		put(" |%d", combiner);
		MPI_Type_get_contents(t, n[0], n[1], n[2], ints, addresses, inner);
		put_ints(n[0], ints);
		for (int i = 0; i < n[1]; i++)
			put(" %ld", (long)addresses[i]);
		for (int i = 0; i < n[2]; i++) {
			int m[3], of;

			MPI_Type_get_envelope(inner[i], &m[0], &m[1], &m[2], &of);
			put(" of %d", of);
			if (of != MPI_COMBINER_NAMED)
				MPI_Type_free(&inner[i]);
		}
		MPI_Type_free(&t);
	}
}

static unsigned hash(const unsigned char *p, int n)
{
	unsigned h = 1;

	for (int i = 0; i < n; i++)
		h = h * 31 + p[i];
	return h;
}

static void transfers(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		unsigned char out[SPACE], in[SPACE];
		MPI_Datatype t = make(kind);
		MPI_Request r;

		for (int i = 0; i < SPACE; i++)
			out[i] = (unsigned char)(i * 7 + left);
		memset(in, 0, sizeof(in));
		MPI_Type_commit(&t);
		MPI_Irecv(in + 64, 1, t, left, kind, MPI_COMM_WORLD, &r);
		MPI_Type_free(&t);
		pending();
		t = make(kind);
		MPI_Type_commit(&t);
		MPI_Send(out + 64, 1, t, right, kind, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		put(" %u", hash(in, SPACE));
		MPI_Type_free(&t);
	}
}

static void packing(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		unsigned char in[SPACE], packed[SPACE], back[SPACE] = {0};
		MPI_Datatype t = make(kind);
		int at = 0, bytes;
		MPI_Aint coded = 0;

		for (int i = 0; i < SPACE; i++)
			in[i] = (unsigned char)(i * 5);
		MPI_Type_commit(&t);
		MPI_Pack_size(1, t, MPI_COMM_WORLD, &bytes);
		MPI_Pack(in + 64, 1, t, packed, SPACE, &at, MPI_COMM_WORLD);
		put(" %d:%d:%u", bytes, at, hash(packed, at));
		at = 0;
		MPI_Unpack(packed, SPACE, &at, back + 64, 1, t, MPI_COMM_WORLD);
		put(":%u", hash(back, SPACE));
		MPI_Pack_external("external32", in + 64, 1, t, packed, SPACE, &coded);
		put(":%ld:%u", (long)coded, hash(packed, (int)coded));
		MPI_Type_free(&t);
	}
}

static void predefined(void)
{
	const MPI_Datatype list[] = {
		MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_UNSIGNED_CHAR,
		MPI_UNSIGNED, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_WCHAR, MPI_C_BOOL,
		MPI_INT8_T, MPI_UINT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_C_DOUBLE_COMPLEX,
		MPI_PACKED, MPI_BYTE, MPI_SHORT_INT, MPI_2INT, MPI_DOUBLE_INT, MPI_LONG_DOUBLE_INT};

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		char name[MPI_MAX_OBJECT_NAME];
		MPI_Aint lb, extent;
		int bytes, n;

		MPI_Type_size(list[i], &bytes);
		MPI_Type_get_extent(list[i], &lb, &extent);
		MPI_Type_get_name(list[i], name, &n);
		put(" %s %d %ld", name, bytes, (long)extent);
	}
}

static void matching(void)
{
	MPI_Datatype t;
	int same;

	MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &t);
	MPI_Type_size(t, &same);
	put(" %d", same);
	put_class(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &t));
	put(" %ld", (long)MPI_Aint_diff(MPI_Aint_add((MPI_Aint)4096, 8), 4096));
	put_class(MPI_Type_contiguous(-1, MPI_INT, &t));
	put_class(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t));
	t = MPI_INT;
	put_class(MPI_Type_free(&t));
}

const struct claim types[] = {
	{"sizes and extents", extents},
	{"what a type was made of", contents},
	{"a type that is freed while a receive uses it", transfers},
	{"pack, unpack and external32", packing},
	{"predefined types", predefined},
	{"matching sizes, addresses, wrong arguments", matching},
	{NULL, NULL},
};
