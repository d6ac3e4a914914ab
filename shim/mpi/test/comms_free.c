/* SPDX-License-Identifier: Apache-2.0
 * Communicators that are freed: with messages that no rank has received, and many of them. */
#include "shim/mpi/test/comms.h"

#include <malloc.h>

#define TURNS 300
#define MAY_GROW 8192

/* The message is in the real library, which drops it, or has not arrived yet. No checkpoint may
 * wait for it, now or later. */
void test_lost_messages(void)
{
	int to = (rank + 1) % size;
	MPI_Comm comm;

	for (int turn = 0; turn < 3; turn++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		MPI_Send(&rank, 1, MPI_INT, to, turn, comm);
		if (turn)
			MPI_Barrier(comm);
		if (turn == 2)
			MPI_Comm_disconnect(&comm);
		else
			MPI_Comm_free(&comm);
		cycle();
	}
	cycle();
}

/* A message too large to send without its receiver, which has freed the communicator. A checkpoint
 * flushes it, so that the send ends; without a checkpoint it never does. */
void test_lost_send(void)
{
	static char large[1 << 20];
	MPI_Request r;
	MPI_Comm comm;

	if (!getenv("GPUCKPT_MPI_TEST") || !is_standing_in())
		return;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Isend(large, sizeof large, MPI_CHAR, (rank + 1) % size, 1, comm, &r);
	MPI_Comm_free(&comm);
	cycle();
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	cycle();
}

static void make_and_free(int turn)
{
	MPI_Comm half, inter, few = MPI_COMM_NULL;
	MPI_Group world, group;
	int ranks[2] = {turn % size, (turn + 1) % size}, bit = 1 + turn % 2,
	    high = (rank & bit) != 0;

	MPI_Comm_split(MPI_COMM_WORLD, high, 0, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, high ? 0 : bit, turn, &inter);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 2, ranks, &group);
	if (rank == ranks[0] || rank == ranks[1])
		MPI_Comm_create_group(MPI_COMM_WORLD, group, turn, &few);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	if (few != MPI_COMM_NULL)
		MPI_Comm_free(&few);
}

/* Each turn has another group and tag. Nothing of it is left, in memory or in a checkpoint's
 * words. */
void test_nothing_is_left(void)
{
	size_t before = 0;

	for (int turn = 0; turn < TURNS; turn++) {
		if (turn == TURNS / 4)
			before = mallinfo2().uordblks;
		make_and_free(turn);
		if (turn % 100 == 50)
			cycle();
	}
	if (is_standing_in() && !restarts())
		CHECK(mallinfo2().uordblks < before + MAY_GROW);
}

/* The communicator lives on for its requests. */
void test_disconnected_under_requests(void)
{
	int in = -1, from = (rank + size - 1) % size;
	MPI_Request send, receive;
	MPI_Comm comm;

	if (!is_standing_in())
		return;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Send_init(&rank, 1, MPI_INT, (rank + 1) % size, 1, comm, &send);
	MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &receive);
	MPI_Comm_disconnect(&comm);
	for (int turn = 0; turn < 2; turn++) {
		in = -1;
		cycle();
		MPI_Start(&receive);
		MPI_Start(&send);
		cycle();
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		MPI_Wait(&receive, MPI_STATUS_IGNORE);
		IS(in, from);
	}
	MPI_Request_free(&send);
	if (rank)
		MPI_Request_free(&receive);
	cycle();
	if (!rank)
		MPI_Request_free(&receive);
}
