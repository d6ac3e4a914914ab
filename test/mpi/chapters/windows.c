/* SPDX-License-Identifier: Apache-2.0
 * Chapter 11, one-sided communication. No rank operates on its own window (doc/limits.md). */
#include "test/mpi/chapters/chapters.h"

enum { N = 12 }; /* columns of the matrix; each rank has two rows */

static void put_attributes(MPI_Win w)
{
	int *unit, *flavor, flag;
	MPI_Aint *bytes;

	MPI_Win_get_attr(w, MPI_WIN_SIZE, &bytes, &flag);
	MPI_Win_get_attr(w, MPI_WIN_DISP_UNIT, &unit, &flag);
	MPI_Win_get_attr(w, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
	put(" %ld %d %d", (long)*bytes, *unit, *flavor);
}

static void put_query(MPI_Win w, int of, const char *first)
{
	MPI_Aint bytes = -1;
	int unit = -1;
	char *p = NULL;

	put_class(MPI_Win_shared_query(w, of, &bytes, &unit, &p));
	put(" %d %ld %d", p != NULL, (long)bytes, unit);
	if (p && first)
		put(" at %ld", (long)(p - first));
}

/* The ranks from 1 on give memory. */
static void shared(void)
{
	for (int apart = 0; apart < 2; apart++) {
		MPI_Aint bytes = rank ? 64 : 0;
		MPI_Info info;
		MPI_Win w;
		char *p = NULL;

		MPI_Info_create(&info);
		MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false");
		MPI_Win_allocate_shared(bytes, 8, info, MPI_COMM_WORLD, &p, &w);
		MPI_Info_free(&info);
		put_attributes(w);
		put_query(w, MPI_PROC_NULL, NULL);
		for (int i = 0; i < size; i++)
			put_query(w, i, i == rank ? p : NULL);
		MPI_Win_free(&w);
	}
}

static MPI_Datatype column(int kind)
{
	MPI_Datatype t, u;

	switch (kind) {
	case 0: MPI_Type_vector(2, 1, N, MPI_DOUBLE, &t); break;
	case 1:
		MPI_Type_create_subarray(2, (int[]){2, N}, (int[]){2, 1}, (int[]){0, 0},
					 MPI_ORDER_C, MPI_DOUBLE, &t);
		break;
	case 2:
		MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, 8 * N}, MPI_DOUBLE, &t);
		break;
	default:
		MPI_Type_create_resized(MPI_DOUBLE, 0, 8 * N, &u);
		MPI_Type_contiguous(2, u, &t);
		MPI_Type_free(&u);
	}
	MPI_Type_commit(&t);
	return t;
}

static double sum_of(const double *v)
{
	double sum = 0;

	for (int i = 0; i < 2 * N; i++)
		sum += v[i] * (i + 1);
	return sum;
}

static void one_column(int how, double *v, int at, MPI_Datatype t, MPI_Win w)
{
	if (how == 0)
		MPI_Put(v, 2, MPI_DOUBLE, right, at, 1, t, w);
	else if (how == 1)
		MPI_Get(v, 2, MPI_DOUBLE, right, at, 1, t, w);
	else
		MPI_Accumulate(v, 2, MPI_DOUBLE, right, at, 1, t, MPI_SUM, w);
}

static void columns(MPI_Win w, double *mine, int kind, int how)
{
	MPI_Datatype t = column(kind);
	double v[2 * N];

	for (int i = 0; i < 2 * N; i++) {
		v[i] = rank * 1000 + i;
		mine[i] = rank * 100 - i;
	}
	MPI_Win_fence(0, w);
	for (int i = 0; i < N && size > 1; i++)
		one_column(how, v + 2 * i, i, t, w);
	MPI_Type_free(&t);
	pending();
	MPI_Win_fence(0, w);
	put(" %g %g", sum_of(mine), sum_of(v));
	MPI_Win_fence(0, w);
}

static void transposes(void)
{
	double *mine = NULL;
	MPI_Win w;

	MPI_Win_allocate(2 * N * sizeof(*mine), sizeof(*mine), MPI_INFO_NULL, MPI_COMM_WORLD, &mine,
			 &w);
	put_attributes(w);
	for (int kind = 0; kind < 4; kind++)
		for (int how = 0; how < 3; how++)
			columns(w, mine, kind, how);
	MPI_Win_free(&w);
}

static void atomics(void)
{
	long words[3] = {rank, 5, 0}, got[3] = {-1, -1, -1}, one = 1, found = right;
	MPI_Win w;

	MPI_Win_create(words, sizeof(words), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &w);
	MPI_Win_lock_all(0, w);
	if (size > 1) {
		MPI_Compare_and_swap(&(long){77}, &found, &got[0], MPI_LONG, right, 0, w);
		MPI_Fetch_and_op(&one, &got[1], MPI_LONG, right, 1, MPI_SUM, w);
		MPI_Get_accumulate(&one, 1, MPI_LONG, &got[2], 1, MPI_LONG, right, 2, 1, MPI_LONG,
				   MPI_REPLACE, w);
	}
	pending();
	MPI_Win_unlock_all(w);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 3; i++)
		put(" %ld %ld", words[i], got[i]);
	MPI_Win_free(&w);
}

static void pairs(void)
{
	struct {
		int v, at;
	} mine = {10 + rank, rank}, out = {10 + size - rank, rank + 50};
	MPI_Win w;

	MPI_Win_create(&mine, sizeof(mine), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
	MPI_Win_fence(0, w);
	if (size > 1)
		MPI_Accumulate(&out, 1, MPI_2INT, right, 0, 1, MPI_2INT, MPI_MAXLOC, w);
	pending();
	MPI_Win_fence(0, w);
	put(" %d %d", mine.v, mine.at);
	MPI_Win_free(&w);
}

/* Exclusive locks on the right neighbour, and a general epoch with both neighbours. */
static void epochs(void)
{
	MPI_Group world, from, to;
	long v[2] = {0}, got = -1;
	MPI_Win w;

	MPI_Win_create(v, sizeof(v), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &w);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &left, &from);
	MPI_Group_incl(world, 1, &right, &to);
	if (size > 1) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w);
		MPI_Put(&(long){rank + 5}, 1, MPI_LONG, right, 0, 1, MPI_LONG, w);
		pending();
		MPI_Win_flush(right, w);
		MPI_Get(&got, 1, MPI_LONG, right, 0, 1, MPI_LONG, w);
		MPI_Win_unlock(right, w);
		MPI_Win_post(from, 0, w);
		MPI_Win_start(to, 0, w);
		MPI_Put(&(long){rank + 9}, 1, MPI_LONG, right, 1, 1, MPI_LONG, w);
		pending();
		MPI_Win_complete(w);
		MPI_Win_wait(w);
	}
	put(" %ld %ld", v[1], got);
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	MPI_Group_free(&world);
	MPI_Win_free(&w);
	put(" %d", w == MPI_WIN_NULL);
}

const struct claim windows[] = {
	{"shared windows of ranks without memory", shared},
	{"columns of a matrix by derived types", transposes},
	{"atomic operations", atomics},
	{"pairs", pairs},
	{"epochs of locks and of some ranks", epochs},
	{NULL, NULL},
};
