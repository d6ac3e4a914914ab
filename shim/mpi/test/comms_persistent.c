/* SPDX-License-Identifier: Apache-2.0
 * Persistent collectives of all kinds, started repeatedly. At a checkpoint they are inactive,
 * active in some ranks or freed in some ranks. */
#include "shim/mpi/test/comms.h"

#include <mpi-ext.h>

#define LATE (size - 1) /* starts after the checkpoint */

static int in[8], out[8], ones[] = { 1, 1, 1, 1 }, at[] = { 0, 1, 2, 3 };

static void fill(int turn)
{
	for (int i = 0; i < 8; i++) {
		in[i] = turn * 1000 + rank * 100 + i;
		out[i] = -1;
	}
}

struct kind {
	const char *name;
	void (*make)(MPI_Comm comm, MPI_Info info, MPI_Request *r);
	int (*expect)(int turn); /* of out[index] on 4 ranks */
	int index;
};

#define MAKE(name, call) \
	static void name(MPI_Comm comm, MPI_Info info, MPI_Request *r) \
	{ \
		call; \
	}
#define EXPECT(name, value) \
	static int name(int turn) \
	{ \
		(void)turn; \
		return value; \
	}

MAKE(make_barrier, MPIX_Barrier_init(comm, info, r))
EXPECT(none, -1)
MAKE(make_bcast, MPIX_Bcast_init(rank == 1 ? in : out, 8, MPI_INT, 1, comm, info, r))
EXPECT(of_bcast, rank == 1 ? -1 : turn * 1000 + 107)
MAKE(make_allreduce, MPIX_Allreduce_init(in, out, 8, MPI_INT, MPI_SUM, comm, info, r))
EXPECT(of_sum, turn * 4000 + 600 + 28)
MAKE(make_reduce, MPIX_Reduce_init(in, out, 8, MPI_INT, MPI_MAX, 3, comm, info, r))
EXPECT(of_reduce, rank == 3 ? turn * 1000 + 307 : -1)
MAKE(make_scan, MPIX_Scan_init(in, out, 8, MPI_INT, MPI_SUM, comm, info, r))
EXPECT(of_scan, (rank + 1) * (turn * 1000 + 7) + 50 * rank * (rank + 1))
MAKE(make_exscan, MPIX_Exscan_init(in, out, 8, MPI_INT, MPI_SUM, comm, info, r))
EXPECT(of_exscan, rank ? rank * (turn * 1000 + 7) + 50 * rank * (rank - 1) : -1)
MAKE(make_allgather, MPIX_Allgather_init(in, 1, MPI_INT, out, 1, MPI_INT, comm, info, r))
MAKE(make_allgatherv, MPIX_Allgatherv_init(in, 1, MPI_INT, out, ones, at, MPI_INT, comm, info, r))
EXPECT(of_gathered, turn * 1000 + 300)
MAKE(make_gather, MPIX_Gather_init(in, 1, MPI_INT, out, 1, MPI_INT, 2, comm, info, r))
MAKE(make_gatherv, MPIX_Gatherv_init(in, 1, MPI_INT, out, ones, at, MPI_INT, 2, comm, info, r))
EXPECT(of_gather, rank == 2 ? turn * 1000 + 300 : -1)
MAKE(make_scatter, MPIX_Scatter_init(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm, info, r))
MAKE(make_scatterv, MPIX_Scatterv_init(in, ones, at, MPI_INT, out, 1, MPI_INT, 0, comm, info, r))
EXPECT(of_scatter, turn * 1000 + rank)
MAKE(make_alltoall, MPIX_Alltoall_init(in, 1, MPI_INT, out, 1, MPI_INT, comm, info, r))
MAKE(make_alltoallv,
     MPIX_Alltoallv_init(in, ones, at, MPI_INT, out, ones, at, MPI_INT, comm, info, r))
EXPECT(of_alltoall, turn * 1000 + 300 + rank)
MAKE(make_reduce_scatter, MPIX_Reduce_scatter_init(in, out, ones, MPI_INT, MPI_SUM, comm, info, r))
MAKE(make_reduce_scatter_block,
     MPIX_Reduce_scatter_block_init(in, out, 1, MPI_INT, MPI_SUM, comm, info, r))
EXPECT(of_reduce_scatter, turn * 4000 + 600 + 4 * rank)
/* on a ring */
MAKE(make_neighbor_allgather,
     MPIX_Neighbor_allgather_init(in, 1, MPI_INT, out, 1, MPI_INT, comm, info, r))
MAKE(make_neighbor_allgatherv,
     MPIX_Neighbor_allgatherv_init(in, 1, MPI_INT, out, ones, at, MPI_INT, comm, info, r))
EXPECT(of_neighbor, turn * 1000 + (rank + 1) % 4 * 100)
MAKE(make_neighbor_alltoall,
     MPIX_Neighbor_alltoall_init(in, 1, MPI_INT, out, 1, MPI_INT, comm, info, r))
MAKE(make_neighbor_alltoallv,
     MPIX_Neighbor_alltoallv_init(in, ones, at, MPI_INT, out, ones, at, MPI_INT, comm, info, r))

static void make_alltoallw(MPI_Comm comm, MPI_Info info, MPI_Request *r)
{
	static int counts[] = { 1, 1, 1, 1 }, bytes[] = { 0, 4, 8, 12 };
	static MPI_Datatype types[4];

	for (int i = 0; i < 4; i++)
		types[i] = MPI_INT;
	MPIX_Alltoallw_init(in, counts, bytes, types, out, counts, bytes, types, comm, info, r);
}

static void make_neighbor_alltoallw(MPI_Comm comm, MPI_Info info, MPI_Request *r)
{
	static int counts[] = { 1, 1 };
	static MPI_Aint bytes[] = { 0, 4 };
	static MPI_Datatype types[2];

	types[0] = types[1] = MPI_INT;
	MPIX_Neighbor_alltoallw_init(in, counts, bytes, types, out, counts, bytes, types, comm,
				     info, r);
}

static const struct kind kinds[] = {
	{ "barrier", make_barrier, none, 0 },
	{ "bcast", make_bcast, of_bcast, 7 },
	{ "allreduce", make_allreduce, of_sum, 7 },
	{ "reduce", make_reduce, of_reduce, 7 },
	{ "scan", make_scan, of_scan, 7 },
	{ "exscan", make_exscan, of_exscan, 7 },
	{ "allgather", make_allgather, of_gathered, 3 },
	{ "allgatherv", make_allgatherv, of_gathered, 3 },
	{ "gather", make_gather, of_gather, 3 },
	{ "gatherv", make_gatherv, of_gather, 3 },
	{ "scatter", make_scatter, of_scatter, 0 },
	{ "scatterv", make_scatterv, of_scatter, 0 },
	{ "alltoall", make_alltoall, of_alltoall, 3 },
	{ "alltoallv", make_alltoallv, of_alltoall, 3 },
	{ "alltoallw", make_alltoallw, of_alltoall, 3 },
	{ "reduce_scatter", make_reduce_scatter, of_reduce_scatter, 0 },
	{ "reduce_scatter_block", make_reduce_scatter_block, of_reduce_scatter, 0 },
	{ "neighbor_allgather", make_neighbor_allgather, of_neighbor, 1 },
	{ "neighbor_allgatherv", make_neighbor_allgatherv, of_neighbor, 1 },
	{ "neighbor_alltoall", make_neighbor_alltoall, of_neighbor, 1 },
	{ "neighbor_alltoallv", make_neighbor_alltoallv, of_neighbor, 1 },
	{ "neighbor_alltoallw", make_neighbor_alltoallw, of_neighbor, 1 },
};

static void run(const struct kind *k, MPI_Request *r, int turn)
{
	fill(turn);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Start(r);
	MPI_Wait(r, MPI_STATUS_IGNORE);
	if (out[k->index] != k->expect(turn))
		fprintf(stderr, "# rank %d: %s: turn %d\n", rank, k->name, turn);
	IS(out[k->index], k->expect(turn));
}

/* All kinds at once, inactive at the checkpoint. */
void test_persistent(void)
{
	enum { KINDS = sizeof kinds / sizeof kinds[0] };
	int n = size, yes = 1;
	MPI_Request r[KINDS];
	MPI_Info info;
	MPI_Comm ring;

	MPI_Info_create(&info);
	MPI_Info_set(info, "as", "hint");
	MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &yes, 0, &ring);
	for (int k = 0; k < KINDS; k++)
		kinds[k].make(ring, info, &r[k]);
	MPI_Info_free(&info);
	for (int turn = 0; turn < 4; turn++) {
		for (int k = 0; k < KINDS; k++)
			run(&kinds[k], &r[k], turn);
		if (turn < 2)
			cycle();
	}
	if (is_standing_in()) /* Open MPI 4.1 alone has freed what they need by then */
		MPI_Comm_free(&ring);
	cycle();
	run(&kinds[4], &r[4], 5);
	for (int k = 0; k < KINDS; k++)
		MPI_Request_free(&r[k]);
	cycle();
	if (ring != MPI_COMM_NULL)
		MPI_Comm_free(&ring);
}

/* The last rank has not started it; input and result share a buffer. */
void test_persistent_pending(void)
{
	int sum[2], value = 0;
	MPI_Request r[2];

	MPIX_Allreduce_init(MPI_IN_PLACE, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
			    &r[0]);
	MPIX_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
	for (int turn = 1; turn <= 3; turn++) {
		int flag;

		sum[0] = rank * turn;
		sum[1] = turn;
		value = rank ? 0 : turn;
		if (rank != LATE)
			MPI_Startall(2, r);
		for (int i = 0; rank != LATE && i < 100; i++)
			MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
		cycle();
		if (rank == LATE) { /* in another order than the others */
			MPI_Start(&r[1]);
			MPI_Start(&r[0]);
		}
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		IS(sum[0], 6 * turn);
		IS(sum[1], 4 * turn);
		IS(value, turn);
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
}

/* The root has completed and freed two of three; the others wait for them after the checkpoint and
 * free them at different times. */
void test_persistent_freed(void)
{
	int value[3] = { rank ? 0 : 1, rank ? 0 : 2, rank ? 0 : 3 }, sum = 0, one = 1;
	MPI_Request r[3], many;

	for (int i = 0; i < 3; i++)
		MPIX_Bcast_init(&value[i], 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]);
	for (int i = 0; rank == 0 && i < 3; i++) {
		MPI_Start(&r[i]);
		MPI_Wait(&r[i], MPI_STATUS_IGNORE);
		if (i != 1)
			MPI_Request_free(&r[i]);
	}
	if (rank != 0)
		MPI_Startall(3, r);
	cycle();
	if (rank != 0)
		MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 3; i++)
		IS(value[i], i + 1);
	cycle();
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 3; i++)
		if (r[i] != MPI_REQUEST_NULL && rank != LATE)
			MPI_Request_free(&r[i]);
	for (int i = 0; i < 200; i++) { /* nothing is left of them */
		MPIX_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
				    &many);
		MPI_Start(&many);
		MPI_Wait(&many, MPI_STATUS_IGNORE);
		MPI_Request_free(&many);
		if (i == 100)
			cycle();
	}
	IS(sum, 4);
	for (int i = 0; i < 3; i++)
		if (r[i] != MPI_REQUEST_NULL)
			MPI_Request_free(&r[i]);
	cycle();
}
