/* SPDX-License-Identifier: Apache-2.0
 * Chapter 5, collective communication. */
#include "test/mpi/chapters/chapters.h"

enum { MOST = 16 }; /* ranks */

static int in[MOST * 2], out[MOST * 2], counts[MOST], at[MOST];

static void fill(void)
{
	for (int i = 0; i < MOST * 2; i++) {
		out[i] = rank * 100 + i;
		in[i] = -1;
	}
	for (int i = 0; i < MOST; i++) {
		counts[i] = 1 + i % 2;
		at[i] = 2 * i;
	}
}

static void moves(void)
{
	MPI_Comm w = MPI_COMM_WORLD;
	int root = size - 1;

	fill();
	MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, root, w);
	put_ints(size, in);
	MPI_Scatter(out, 2, MPI_INT, in, 2, MPI_INT, root, w);
	put_ints(2, in);
	MPI_Allgather(out, 2, MPI_INT, in, 2, MPI_INT, w);
	put_ints(2 * size, in);
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, w);
	put_ints(size, in);
	fill();
	MPI_Gatherv(out, counts[rank], MPI_INT, in, counts, at, MPI_INT, root, w);
	MPI_Allgatherv(out, counts[rank], MPI_INT, in, counts, at, MPI_INT, w);
	put_ints(2 * size, in);
	MPI_Bcast(out, 3, MPI_INT, root, w);
	put_ints(3, out);
}

static void reductions(void)
{
	const MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND,
			      MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR};
	struct {
		double v;
		int at;
	} pair = {rank % 2, rank}, best;
	int v = rank + 3, r = 0, c;

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		MPI_Allreduce(&v, &r, 1, MPI_INT, ops[i], MPI_COMM_WORLD);
		MPI_Op_commutative(ops[i], &c);
		put(" %d %d", r, c);
	}
	MPI_Allreduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	put(" %g %d", best.v, best.at);
	MPI_Scan(&v, &r, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	put(" %d", r);
	r = 0;
	MPI_Exscan(&v, &r, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	put(" %d", rank ? r : 0);
	fill();
	MPI_Reduce_scatter_block(out, &r, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	put(" %d", r);
	MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	put_ints(counts[rank], in);
}

/* 2 by 2 matrices: associative, not commutative. */
static void multiply(void *a, void *b, int *n, MPI_Datatype *t)
{
	int *x = a, *y = b;

	(void)t;
	for (int i = 0; i < *n; i++, x += 4, y += 4) {
		int r[4] = {x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3],
			    x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]};

		memcpy(y, r, sizeof(r));
	}
}

static void own_operation(void)
{
	int v[4] = {1, rank, 1, 2}, r[4] = {0};
	MPI_Datatype t;
	MPI_Request q;
	MPI_Op op;

	MPI_Type_contiguous(4, MPI_INT, &t);
	MPI_Type_commit(&t);
	MPI_Op_create(multiply, 0, &op);
	MPI_Allreduce(v, r, 1, t, op, MPI_COMM_WORLD);
	put_ints(4, r);
	MPI_Iscan(v, r, 1, t, op, MPI_COMM_WORLD, &q);
	pending();
	MPI_Op_free(&op);
	MPI_Type_free(&t);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	put_ints(4, r);
}

static void in_place(void)
{
	int v[MOST], all[MOST];

	for (int i = 0; i < size; i++)
		v[i] = all[i] = rank * 10 + i;
	MPI_Allreduce(MPI_IN_PLACE, v, size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	put_ints(size, v);
	put_ints(size, all);
	MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	put_ints(size, all);
}

/* Rank 0 comes late. */
static void non_blocking(void)
{
	int sum = 0, max = rank, token = rank == size - 1 ? 99 : 0;
	MPI_Request r[5];

	fill();
	if (!rank)
		pending();
	MPI_Ibarrier(MPI_COMM_WORLD, &r[0]);
	MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]);
	MPI_Ibcast(&token, 1, MPI_INT, size - 1, MPI_COMM_WORLD, &r[2]);
	MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD, &r[3]);
	MPI_Iallreduce(MPI_IN_PLACE, &max, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &r[4]);
	if (rank)
		pending();
	MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
	put(" %d %d %d", sum, token, max);
	put_ints(size, in);
}

static void neighbourhoods(void)
{
	int dims[1] = {size}, periods[1] = {1}, v[2] = {rank, rank + 50}, got[4] = {-1, -1, -1, -1};
	MPI_Comm ring;
	MPI_Request r[2];

	MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
	MPI_Neighbor_allgather(v, 1, MPI_INT, got, 1, MPI_INT, ring);
	put_ints(2, got);
	MPI_Ineighbor_alltoall(v, 1, MPI_INT, got, 1, MPI_INT, ring, &r[0]);
	MPI_Ineighbor_allgather(v, 1, MPI_INT, got + 2, 1, MPI_INT, ring, &r[1]);
	pending();
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	put_ints(4, got);
	MPI_Comm_free(&ring);
}

static void wrong(void)
{
	int v = 0, r = 0;

	put_class(MPI_Bcast(&v, 1, MPI_INT, size, MPI_COMM_WORLD));
	put_class(MPI_Allreduce(&v, &r, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	put_class(MPI_Allreduce(&v, &r, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
	put_class(MPI_Reduce_local(&v, &r, 1, MPI_INT, MPI_SUM));
	put(" %d", r);
}

const struct claim collectives[] = {
	{"data moves", moves},
	{"reductions", reductions},
	{"an operation that does not commute, freed while it is used", own_operation},
	{"in place", in_place},
	{"several pending at once, one rank late", non_blocking},
	{"neighbourhoods", neighbourhoods},
	{"wrong arguments", wrong},
	{NULL, NULL},
};
