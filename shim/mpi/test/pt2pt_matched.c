// SPDX-License-Identifier: Apache-2.0
/* Probes, matched messages, and the statuses of flushed messages. */
#include "shim/mpi/test/pt2pt.h"

/* Rank 1 sends n bytes to rank 0, and starts a message to itself that it waits for later. */
static void send_one(unsigned char *out, int n, int tag, MPI_Request *send)
{
	*send = MPI_REQUEST_NULL;
	fill(out, n, 1, tag);
	if (rank == 1)
		MPI_Isend(out, n, MPI_BYTE, 0, tag, MPI_COMM_WORLD, send);
}

void test_probe(void)
{
	static unsigned char out[2][100000], in[100000];
	MPI_Request send[2];
	MPI_Status status;
	int flag = 0;

	send_one(out[0], 100000, 1, &send[0]);
	send_one(out[1], 10, 2, &send[1]);
	cycle();
	if (rank == 0) {
		CHECK(!MPI_Probe(1, 2, MPI_COMM_WORLD, &status));
		CHECK(count_of(&status, MPI_BYTE) == 10 && status.MPI_SOURCE == 1);
		while (!flag)
			CHECK(!MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
					  &status));
		CHECK(count_of(&status, MPI_BYTE) == 100000 && status.MPI_TAG == 1);
		CHECK(!MPI_Iprobe(1, 3, MPI_COMM_WORLD, &flag, &status) && !flag);
		CHECK(!MPI_Recv(in, 100000, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
		CHECK(status.MPI_TAG == 1 && is_filled(in, 100000, 1, 1));
		CHECK(!MPI_Recv(in, 100000, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
		CHECK(status.MPI_TAG == 2 && is_filled(in, 10, 1, 2));
	}
	CHECK(!MPI_Waitall(2, send, MPI_STATUSES_IGNORE));
}

/* Messages matched before the cycle and after it, and a pending receive of a matched one. */
void test_mprobe(void)
{
	static unsigned char out[4][90000], in[4][90000];
	static const int sizes[4] = { 8, 90000, 90000, 16 };
	MPI_Request send[4], recv[2];
	MPI_Message message[4];
	MPI_Status status;
	int flag;

	for (int i = 0; i < 4; i++)
		send_one(out[i], sizes[i], i, &send[i]);
	for (int i = 0; rank == 0 && i < 2; i++) {
		CHECK(!MPI_Mprobe(1, i, MPI_COMM_WORLD, &message[i], &status));
		CHECK(count_of(&status, MPI_BYTE) == sizes[i]);
	}
	if (rank == 0) {
		CHECK(!MPI_Mprobe(1, 2, MPI_COMM_WORLD, &message[2], &status));
		CHECK(!MPI_Imrecv(in[2], 90000, MPI_BYTE, &message[2], &recv[0]));
		CHECK(message[2] == MPI_MESSAGE_NULL);
	}
	cycle();
	if (rank == 0) {
		CHECK(!MPI_Mrecv(in[1], 90000, MPI_BYTE, &message[1], &status));
		CHECK(message[1] == MPI_MESSAGE_NULL && status.MPI_SOURCE == 1 &&
		      status.MPI_TAG == 1);
		CHECK(!MPI_Imrecv(in[0], 90000, MPI_BYTE, &message[0], &recv[1]));
		CHECK(!MPI_Wait(&recv[1], &status) && count_of(&status, MPI_BYTE) == 8);
		CHECK(!MPI_Wait(&recv[0], &status) && status.MPI_TAG == 2);
		for (flag = 0; !flag;)
			CHECK(!MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
					   &message[3], &status));
		CHECK(status.MPI_TAG == 3);
	}
	cycle();
	if (rank == 0) {
		CHECK(!MPI_Mrecv(in[3], 90000, MPI_BYTE, &message[3], &status));
		for (int i = 0; i < 4; i++)
			CHECK(is_filled(in[i], sizes[i], 1, i));
	}
	CHECK(!MPI_Waitall(4, send, MPI_STATUSES_IGNORE));
}

static bool is_truncated(int rc)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(rc, &class);
	return class == MPI_ERR_TRUNCATE;
}

void test_truncation(void)
{
	static unsigned char out[2][50000], in[50000];
	MPI_Request send[2], recv;
	MPI_Status status;

	send_one(out[0], 100, 1, &send[0]);
	send_one(out[1], 50000, 2, &send[1]);
	cycle();
	if (rank == 0) {
		in[50] = 0xee;
		CHECK(is_truncated(MPI_Recv(in, 50, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &status)));
		CHECK(status.MPI_SOURCE == 1 && status.MPI_TAG == 1);
		CHECK(in[50] == 0xee && is_filled(in, 50, 1, 1));
		MPI_Irecv(in, 50, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &recv);
		CHECK(is_truncated(MPI_Wait(&recv, &status)) && recv == MPI_REQUEST_NULL);
	}
	cycle(); /* both count as received */
	CHECK(!MPI_Waitall(2, send, MPI_STATUSES_IGNORE));
}

/* Fewer elements than requested, half an element, and a type that is freed while in use. */
void test_types(void)
{
	struct {
		double d;
		int i;
	} out[3] = { { 1, 2 }, { 3, 4 }, { 5, 6 } }, in[4] = { { 0, 0 } };
	MPI_Datatype pair, resized, pairs, stripe;
	MPI_Aint at[2] = { 0, 8 };
	MPI_Datatype types[2] = { MPI_DOUBLE, MPI_INT };
	int lengths[2] = { 1, 1 }, n, ints[4] = { 10, 11, 12, 13 }, striped[8] = { 0 };
	MPI_Request send[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL }, recv = MPI_REQUEST_NULL;
	MPI_Status status;

	MPI_Type_create_struct(2, lengths, at, types, &pair);
	MPI_Type_create_resized(pair, 0, sizeof(out[0]), &resized);
	MPI_Type_contiguous(2, resized, &pairs);
	MPI_Type_commit(&pairs);
	MPI_Type_commit(&resized);
	MPI_Type_vector(4, 1, 2, MPI_INT, &stripe);
	MPI_Type_commit(&stripe);
	if (rank == 0)
		MPI_Irecv(striped, 1, stripe, 1, 2, MPI_COMM_WORLD, &recv);
	MPI_Type_free(&stripe);
	if (rank == 1)
		MPI_Isend(out, 3, resized, 0, 1, MPI_COMM_WORLD, &send[0]);
	cycle();
	if (rank == 1)
		MPI_Isend(ints, 4, MPI_INT, 0, 2, MPI_COMM_WORLD, &send[1]);
	if (rank == 0) {
		CHECK(!MPI_Recv(in, 2, pairs, 1, 1, MPI_COMM_WORLD, &status));
		CHECK(count_of(&status, pairs) == MPI_UNDEFINED);
		CHECK(!MPI_Get_elements(&status, pairs, &n) && n == 6);
		CHECK(count_of(&status, resized) == 3);
		CHECK(in[2].d == 5 && in[2].i == 6 && in[0].d == 1 && in[1].i == 4);
		CHECK(!MPI_Wait(&recv, &status) && count_of(&status, MPI_INT) == 4);
		for (int i = 0; i < 8; i++)
			CHECK(striped[i] == (i % 2 ? 0 : 10 + i / 2));
	}
	CHECK(!MPI_Waitall(2, send, MPI_STATUSES_IGNORE));
	MPI_Type_free(&pairs);
	MPI_Type_free(&resized);
	MPI_Type_free(&pair);
}
