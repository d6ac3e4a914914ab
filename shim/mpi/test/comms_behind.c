/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints at any time (GPUCKPT_MPI_TEST_MS) while ranks are at different places. */
#include "shim/mpi/test/comms.h"

#include <unistd.h>

static void compute(int ms)
{
	usleep(ms * 1000);
}

/* The root has passed its broadcasts long before the others reach them; then it computes. */
void test_root_ahead(void)
{
	int value, request_value = 0;
	MPI_Request r;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 20; i++) {
			value = rank ? -1 : i;
			MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
			IS(value, i);
			compute(rank * 2);
		}
		if (rank == 0)
			compute(150);
		/* Ibcast, Send, Wait against Recv, Ibcast */
		value = rank ? -1 : round;
		if (rank == 1)
			MPI_Recv(&request_value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &r);
		compute(30);
		if (rank == 0)
			MPI_Send(&round, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		IS(value, round);
	}
	IS(request_value, rank == 1 ? 4 : 0);
}

/* Pairs around a ring: each rank is ahead in one and behind in the other. */
void test_overlapping(void)
{
	MPI_Comm pair[2];
	int members[2], sum;
	MPI_Group world, group;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	for (int k = 0; k < 2; k++) { /* even pairs 01 23, odd pairs 12 30 */
		int first = (rank - (rank + k) % 2 + 4) % 4;

		members[0] = first;
		members[1] = (first + 1) % 4;
		MPI_Group_incl(world, 2, members, &group);
		MPI_Comm_create_group(MPI_COMM_WORLD, group, k, &pair[k]);
		MPI_Group_free(&group);
	}
	for (int i = 0; i < 150; i++) {
		int k = (rank / 2 + i) % 2 ? 1 : 0, value = i;

		k = i % 2;
		MPI_Bcast(&value, 1, MPI_INT, i / 2 % 2, pair[k]);
		IS(value, i);
		compute((rank * 7 + i) % 5);
	}
	for (int k = 0; k < 2; k++) {
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, pair[k]);
		MPI_Comm_free(&pair[k]);
	}
	MPI_Group_free(&world);
}

/* Rank 1 reaches the broadcast only after a message from rank 2. Rank 2 is not behind, and before
 * it sends it passes a barrier with rank 3, which computes. */
void test_messages_needed(void)
{
	int value, go;
	MPI_Comm two;

	MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &two);
	for (int i = 0; i < 12; i++) {
		value = rank ? -1 : i;
		go = 0;
		if (rank == 3)
			compute(60);
		if (rank > 1)
			MPI_Barrier(two);
		if (rank == 2)
			MPI_Send(&i, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
		if (rank == 1)
			MPI_Recv(&go, 1, MPI_INT, 2, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank < 2)
			MPI_Bcast(&value, 1, MPI_INT, 0, two);
		if (rank < 2)
			IS(value, i);
		if (rank == 1)
			IS(go, i);
	}
	MPI_Comm_free(&two);
}

void test_create_and_free(void)
{
	MPI_Comm half, inter, merged, dup;
	int sum, one = 1, got;

	for (int i = 0; i < 25; i++) {
		compute(rank == i % 4 ? 20 : 0);
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
		/* one message to flush, and one of the other leader that is not flushed */
		if (rank >= 2)
			MPI_Send(&i, 1, MPI_INT, rank - 2, 100, MPI_COMM_WORLD);
		compute(rank == (i + 1) % 4 ? 60 : 0);
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, i, &inter);
		if (rank < 2) {
			MPI_Recv(&got, 1, MPI_INT, rank + 2, 100, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			IS(got, i);
		}
		MPI_Comm_free(&half);
		MPI_Intercomm_merge(inter, 0, &merged);
		compute(rank == (i + 2) % 4 ? 10 : 0);
		MPI_Comm_dup(merged, &dup);
		MPI_Comm_free(&inter);
		MPI_Comm_free(&merged);
		sum = 0;
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
		IS(sum, 4);
		MPI_Comm_disconnect(&dup);
	}
}

/* Arguments that are not significant by the standard may have any value. */
void test_insignificant(void)
{
	MPI_Datatype none = (MPI_Datatype)(rank == 2 ? MPI_INT : (void *)16);
	int out[4] = { -1 }, in[4] = { 5, 6, 7, 8 }, got = -1;
	MPI_Request r;

	MPI_Gather(&rank, 1, MPI_INT, out, 1, none, 2, MPI_COMM_WORLD);
	IS(rank == 2 ? out[3] : 3, 3);
	MPI_Scatter(in, 1, none, &got, 1, MPI_INT, 2, MPI_COMM_WORLD);
	IS(got, 5 + rank);
	MPI_Igatherv(&rank, 1, MPI_INT, out, rank == 2 ? (int[]){ 1, 1, 1, 1 } : (int *)16,
		     rank == 2 ? (int[]){ 3, 2, 1, 0 } : (int *)16, none, 2, MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	IS(rank == 2 ? out[3] : 0, 0);
	out[0] = out[1] = out[2] = out[3] = rank;
	MPI_Allgather(MPI_IN_PLACE, 77, (MPI_Datatype)16, out, 1, MPI_INT, MPI_COMM_WORLD);
	IS(out[3], 3);
}
