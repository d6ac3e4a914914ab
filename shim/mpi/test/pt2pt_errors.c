// SPDX-License-Identifier: Apache-2.0
/* Wrong arguments while flushed messages wait, and communicators that are freed before the objects
 * that use them. */
#include "shim/mpi/test/pt2pt.h"

static int class_of(int rc)
{
	int class;

	MPI_Error_class(rc, &class);
	return class;
}

/* A call with a wrong argument does not take a message, which stays for a correct receive. */
void test_wrong_arguments(void)
{
	int to = (rank + 1) % size, from = (rank + size - 1) % size, out[2] = { rank, rank + 100 };
	int in[4] = { -1 }, flag = 0;
	MPI_Datatype uncommitted;
	MPI_Message message;
	MPI_Request r;
	MPI_Status s;

	MPI_Type_contiguous(4, MPI_INT, &uncommitted);
	MPI_Send(&out[0], 1, MPI_INT, to, 5, MPI_COMM_WORLD);
	MPI_Send(&out[1], 1, MPI_INT, to, 6, MPI_COMM_WORLD);
	MPI_Send(&out[1], 1, MPI_INT, to, 7, MPI_COMM_WORLD);
	cycle();
	CHECK(MPI_Recv(in, -1, MPI_INT, from, 5, MPI_COMM_WORLD, &s));
	CHECK(MPI_Recv(in, 1, uncommitted, from, 5, MPI_COMM_WORLD, &s));
	CHECK(MPI_Irecv(in, 1, MPI_DATATYPE_NULL, from, 5, MPI_COMM_WORLD, &r));
	CHECK(MPI_Sendrecv(out, 1, MPI_INT, size, 1, in, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &s));
	CHECK(MPI_Sendrecv(out, 1, MPI_INT, to, -9, in, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &s));
	CHECK(!MPI_Recv(in, 4, MPI_INT, from, 6, MPI_COMM_WORLD, &s));
	CHECK(in[0] == from + 100 && s.MPI_TAG == 6);
	CHECK(!MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &s) && flag);
	CHECK(!MPI_Sendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, from, 5,
			    MPI_COMM_WORLD, &s));
	CHECK(in[0] == from && count_of(&s, MPI_INT) == 1);
	CHECK(!MPI_Mprobe(from, 7, MPI_COMM_WORLD, &message, &s));
	CHECK(MPI_Mrecv(in, 1, MPI_DATATYPE_NULL, &message, &s) && message != MPI_MESSAGE_NULL);
	CHECK(!MPI_Mrecv(in, 1, MPI_INT, &message, &s) && in[0] == from + 100);
	MPI_Type_free(&uncommitted);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The stand-in uses the tags above MPI_TAG_UB; a program's message with one would block each
 * checkpoint. (If the bound is INT_MAX, the next number is not a valid tag either.) */
void test_tag_too_high(void)
{
	int *bound, flag, high, in = -1, to = (rank + 1) % size, from = (rank + size - 1) % size;
	MPI_Request r;
	MPI_Status s;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
	high = (int)((unsigned int)*bound + 1);
	CHECK(class_of(MPI_Send(&rank, 1, MPI_INT, to, high, MPI_COMM_WORLD)) == MPI_ERR_TAG);
	CHECK(class_of(MPI_Bsend(&rank, 1, MPI_INT, to, high, MPI_COMM_WORLD)) == MPI_ERR_TAG);
	CHECK(class_of(MPI_Ssend(&rank, 1, MPI_INT, to, high, MPI_COMM_WORLD)) == MPI_ERR_TAG);
	CHECK(class_of(MPI_Isend(&rank, 1, MPI_INT, to, high, MPI_COMM_WORLD, &r)) == MPI_ERR_TAG);
	CHECK(class_of(MPI_Send_init(&rank, 1, MPI_INT, to, high, MPI_COMM_WORLD, &r)) ==
	      MPI_ERR_TAG);
	CHECK(class_of(MPI_Sendrecv(&rank, 1, MPI_INT, to, high, &in, 1, MPI_INT, from, 1,
				    MPI_COMM_WORLD, &s)) == MPI_ERR_TAG);
	CHECK(!MPI_Isend(&rank, 1, MPI_INT, to, *bound, MPI_COMM_WORLD, &r));
	cycle();
	CHECK(!MPI_Recv(&in, 1, MPI_INT, from, *bound, MPI_COMM_WORLD, &s) && in == from);
	CHECK(!MPI_Wait(&r, &s));
}

/* A collective cannot be cancelled, before a restart or after it. */
void test_cancel_collective(void)
{
	MPI_Request r = MPI_REQUEST_NULL;

	if (rank) {
		MPI_Ibarrier(MPI_COMM_WORLD, &r);
		CHECK(MPI_Cancel(&r));
	}
	cycle();
	if (!rank)
		MPI_Ibarrier(MPI_COMM_WORLD, &r);
	CHECK(!MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* A matched message can be received after its communicator is freed. */
void test_matched_freed(void)
{
	int from = (rank + size - 1) % size, in = -1;
	MPI_Message message;
	MPI_Comm comm, next;
	MPI_Status s;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 1, comm);
	CHECK(!MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &message, &s));
	MPI_Comm_free(&comm);
	MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &next); /* perhaps in the same memory */
	cycle();
	CHECK(!MPI_Mrecv(&in, 1, MPI_INT, &message, &s) && in == from && s.MPI_SOURCE == from);
	MPI_Comm_free(&next);
	cycle(); /* the message counts as received */
}
