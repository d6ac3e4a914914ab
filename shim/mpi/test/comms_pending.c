/* SPDX-License-Identifier: Apache-2.0
 * Non-blocking collectives that are pending at a checkpoint: the last rank has not started them, or
 * only some ranks have seen them complete. */
#include "shim/mpi/test/comms.h"

#define KINDS 11
#define LATE (size - 1) /* starts after the checkpoint */

struct buffers {
	int in[8], out[8], counts[4], displs[4];
	MPI_Datatype types[4];
};

static void fill(struct buffers *b)
{
	for (int i = 0; i < 8; i++) {
		b->in[i] = rank * 100 + i;
		b->out[i] = -1;
	}
	for (int i = 0; i < 4; i++) {
		b->counts[i] = 1;
		b->displs[i] = i;
		b->types[i] = MPI_INT;
	}
}

static void start(int kind, struct buffers *b, MPI_Comm comm, MPI_Request *r)
{
	int bytes[] = { 0, 4, 8, 12 };
	MPI_Datatype type;

	switch (kind) {
	case 0:
		MPI_Ibarrier(comm, r);
		break;
	case 1:
		MPI_Ibcast(b->in, 8, MPI_INT, 1, comm, r);
		break;
	case 2:
		MPI_Iallreduce(b->in, b->out, 8, MPI_INT, MPI_SUM, comm, r);
		break;
	case 3:
		MPI_Iallgatherv(b->in, 1, MPI_INT, b->out, b->counts, b->displs, MPI_INT, comm, r);
		break;
	case 4:
		MPI_Ialltoallw(b->in, b->counts, bytes, b->types, b->out, b->counts, bytes,
			       b->types, comm, r);
		break;
	case 5:
		MPI_Type_contiguous(2, MPI_INT, &type);
		MPI_Type_commit(&type);
		MPI_Igather(b->in, 1, type, b->out, 1, type, 0, comm, r);
		MPI_Type_free(&type);
		break;
	case 6:
		MPI_Iscatterv(b->in, b->counts, b->displs, MPI_INT, b->out, 1, MPI_INT, 2, comm, r);
		break;
	case 7:
		MPI_Ireduce(b->in, b->out, 8, MPI_INT, MPI_MAX, 3, comm, r);
		break;
	case 8:
		MPI_Iscan(b->in, b->out, 8, MPI_INT, MPI_SUM, comm, r);
		break;
	case 9:
		MPI_Ireduce_scatter_block(b->in, b->out, 2, MPI_INT, MPI_SUM, comm, r);
		break;
	default:
		MPI_Ialltoall(b->in, 2, MPI_INT, b->out, 2, MPI_INT, comm, r);
	}
	/* the program may reuse the arguments */
	memset(b->counts, 0x55, sizeof b->counts);
	memset(b->types, 0x55, sizeof b->types);
	memset(bytes, 0x55, sizeof bytes);
}

static void verify(int kind, const struct buffers *b)
{
	switch (kind) {
	case 1:
		IS(b->in[7], 107);
		break;
	case 2:
		IS(b->out[7], 600 + 28);
		break;
	case 3:
		IS(b->out[3], 300);
		break;
	case 4:
		IS(b->out[2], 200 + rank);
		break;
	case 5:
		IS(b->out[7], rank ? -1 : 301);
		break;
	case 6:
		IS(b->out[0], 200 + rank);
		break;
	case 7:
		IS(b->out[1], rank == 3 ? 301 : -1);
		break;
	case 8:
		IS(b->out[0], 50 * rank * (rank + 1));
		break;
	case 9:
		IS(b->out[1], 600 + 4 * (2 * rank + 1));
		break;
	case 10:
		IS(b->out[5], 200 + 2 * rank + 1);
		break;
	default:
		break;
	}
}

void test_pending(void)
{
	struct buffers b[KINDS];
	MPI_Request r[KINDS];
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int k = 0; k < KINDS; k++)
		fill(&b[k]);
	for (int k = 0; rank != LATE && k < KINDS; k++)
		start(k, &b[k], comm, &r[k]);
	cycle();
	cycle();
	for (int k = 0; rank == LATE && k < KINDS; k++)
		start(k, &b[k], comm, &r[k]);
	if (is_standing_in()) /* Open MPI 4.1 alone crashes if it is freed with these pending */
		MPI_Comm_free(&comm);
	cycle();
	MPI_Waitall(KINDS, r, MPI_STATUSES_IGNORE);
	if (comm != MPI_COMM_NULL)
		MPI_Comm_free(&comm);
	for (int k = 0; k < KINDS; k++)
		verify(k, &b[k]);
}

/* The real library may already have overwritten the input with results. */
void test_pending_in_place(void)
{
	int sum[4], scan[1], block[4], all[4], some[4], ones[] = {1, 1, 1, 1}, at[] = {0, 1, 2, 3};
	static const int products[] = { 1, 2, 6, 24 };
	MPI_Request r[5];

	for (int i = 0; i < 4; i++)
		sum[i] = block[i] = all[i] = some[i] = rank * 10 + i;
	scan[0] = rank + 1;
	for (int turn = 0; turn < 2; turn++) {
		if (turn == (rank == LATE)) {
			MPI_Iallreduce(MPI_IN_PLACE, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
				       &r[0]);
			MPI_Iscan(MPI_IN_PLACE, scan, 1, MPI_INT, MPI_PROD, MPI_COMM_WORLD, &r[1]);
			MPI_Ireduce_scatter(MPI_IN_PLACE, block, ones, MPI_INT, MPI_SUM,
					    MPI_COMM_WORLD, &r[2]);
			MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT,
				      MPI_COMM_WORLD, &r[3]);
			MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, some, ones, at,
				       MPI_INT, MPI_COMM_WORLD, &r[4]);
		}
		if (turn == 0) {
			int flag;

			for (int i = 0; rank != LATE && i < 100; i++)
				MPI_Testall(5, r, &flag, MPI_STATUSES_IGNORE);
			cycle();
		}
	}
	MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
	IS(sum[3], 60 + 12);
	IS(scan[0], products[rank]);
	IS(block[0], 60 + 4 * rank);
	for (int i = 0; i < 4; i++) {
		IS(all[i], i * 10 + rank);
		IS(some[i], i * 10 + rank);
	}
}

void test_pending_neighbours(void)
{
	int n = size, yes = 1, from[2] = {-1, -1}, in[2] = {rank, rank + 50}, to[2] = {-1, -1};
	MPI_Aint at[] = { 0, 4 };
	int ones[] = { 1, 1 };
	MPI_Datatype types[] = { MPI_INT, MPI_INT };
	MPI_Request r[2];
	MPI_Comm ring;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &yes, 0, &ring);
	for (int turn = 0; turn < 2; turn++) {
		if (turn == (rank == LATE)) {
			MPI_Ineighbor_allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, ring, &r[0]);
			MPI_Ineighbor_alltoallw(in, ones, at, types, to, ones, at, types, ring,
						&r[1]);
		}
		if (turn == 0)
			cycle();
	}
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	CHECK(from[0] == (rank + 3) % 4 && from[1] == (rank + 1) % 4);
	CHECK(to[0] == (rank + 3) % 4 + 50 && to[1] == (rank + 1) % 4);
	MPI_Comm_free(&ring);
}

void test_pending_idup(void)
{
	MPI_Comm a, b = MPI_COMM_NULL;
	MPI_Request r[2];
	int sum = 0, one = 1, result;

	MPI_Comm_idup(MPI_COMM_WORLD, &a, &r[0]);
	cycle();
	MPI_Wait(&r[0], MPI_STATUS_IGNORE); /* Open MPI 4.1 makes one at a time */
	if (rank != LATE)
		MPI_Comm_idup(MPI_COMM_WORLD, &b, &r[1]);
	cycle();
	if (rank == LATE)
		MPI_Comm_idup(MPI_COMM_WORLD, &b, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	cycle();
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, a);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, b);
	IS(sum, 4);
	MPI_Comm_compare(a, b, &result);
	IS(result, MPI_CONGRUENT);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
}

enum { MANY = 20, TURNS = 16 };

/* A communicator of two ranks, so that the ranks' numbers of free communicators differ. */
static void make_pair(int turn, MPI_Comm *pair)
{
	int ranks[2] = {turn % size, (turn + 1) % size};
	MPI_Group world, group;

	*pair = MPI_COMM_NULL;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 2, ranks, &group);
	if (rank == ranks[0] || rank == ranks[1])
		MPI_Comm_create_group(MPI_COMM_WORLD, group, turn, pair);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
}

static void free_unless_null(MPI_Comm *comm)
{
	if (*comm != MPI_COMM_NULL)
		MPI_Comm_free(comm);
}

static void start_some(MPI_Comm *made, MPI_Request *r, int from, int to)
{
	for (int i = from; i < to; i++)
		MPI_Comm_idup(MPI_COMM_WORLD, &made[i], &r[i]);
}

/* Other collectives are started, and a communicator is made, behind them. */
static void make_many(int turn, MPI_Comm *made)
{
	int sum = 0, one = 1, late = rank == LATE ? MANY / 2 : MANY;
	MPI_Request r[MANY + 1];

	start_some(made, r, 0, late);
	if (turn % 8 == 1)
		cycle();
	start_some(made, r, late, MANY);
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[MANY]);
	if (turn % 4 == 0)
		MPI_Comm_dup(MPI_COMM_WORLD, &made[MANY]);
	MPI_Waitall(MANY + 1, r, MPI_STATUSES_IGNORE);
	IS(sum, size);
	for (int i = 0; i < MANY; i++) {
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[i]);
		IS(sum, size);
	}
}

/* Open MPI alone hangs here. */
void test_many_idups(void)
{
	MPI_Comm pairs[TURNS], made[2][MANY + 1];

	if (!is_standing_in())
		return;
	for (int i = 0; i <= MANY; i++)
		made[0][i] = made[1][i] = MPI_COMM_NULL;
	for (int turn = 0; turn < TURNS; turn++) {
		make_pair(turn, &pairs[turn]);
		for (int i = 0; i <= MANY; i++)
			free_unless_null(&made[turn % 2][i]);
		make_many(turn, made[turn % 2]);
	}
	for (int turn = 0; turn < TURNS; turn++)
		free_unless_null(&pairs[turn]);
	for (int i = 0; i <= MANY; i++) {
		free_unless_null(&made[0][i]);
		free_unless_null(&made[1][i]);
	}
}

void test_pending_overlapping(void)
{
	int sums[2] = { 0 }, one = 1;
	MPI_Comm half, dup;
	MPI_Request r[2];

	MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	if (rank != LATE)
		MPI_Iallreduce(&one, &sums[0], 1, MPI_INT, MPI_SUM, dup, &r[0]);
	if (rank != 0)
		MPI_Iallreduce(&one, &sums[1], 1, MPI_INT, MPI_SUM, half, &r[1]);
	cycle();
	if (rank == 0)
		MPI_Iallreduce(&one, &sums[1], 1, MPI_INT, MPI_SUM, half, &r[1]);
	if (rank == LATE)
		MPI_Iallreduce(&one, &sums[0], 1, MPI_INT, MPI_SUM, dup, &r[0]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	CHECK(sums[0] == 4 && sums[1] == 2);
	MPI_Comm_free(&half);
	MPI_Comm_free(&dup);
}

/* The root sees its broadcast complete at once. All ranks have started it. */
void test_complete_in_some(void)
{
	int value = rank ? 0 : 42, flag = 0;
	MPI_Request r;

	MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &r);
	for (int i = 0; rank == 0 && !flag && i < 100000; i++)
		MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
	value += rank == 0 && flag; /* the root may reuse its buffer */
	cycle();
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	IS(value, 42 + (rank == 0 && flag));
}
