// SPDX-License-Identifier: Apache-2.0
/* Sends and receives of each mode, and messages in flight. */
#include "shim/mpi/test/pt2pt.h"

enum { LARGE = 1 << 20, PAIR = 1000 };

static int right(void)
{
	return (rank + 1) % size;
}

static int left(void)
{
	return (rank + size - 1) % size;
}

static int send_by(int mode, const void *buf, int n, int to, int tag, MPI_Request *request)
{
	switch (mode) {
	case 0:
		return MPI_Isend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
	case 1:
		return MPI_Issend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
	case 2:
		return MPI_Irsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
	case 3:
		*request = MPI_REQUEST_NULL;
		return MPI_Send(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
	case 4:
		*request = MPI_REQUEST_NULL;
		return MPI_Ssend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
	default:
		*request = MPI_REQUEST_NULL;
		return MPI_Rsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
	}
}

void test_modes(void)
{
	static const int sizes[] = { 0, 8, 64, 4000, 9000, LARGE };
	unsigned char *out = malloc(LARGE), *in = malloc(LARGE);

	for (int mode = 0; mode < 6; mode++) {
		for (int s = 0; s < 6; s++) {
			int n = sizes[s], tag = mode * 10 + s;
			MPI_Request recv, send;
			MPI_Status status;

			fill(out, n, rank, tag);
			memset(in, 0, LARGE);
			CHECK(!MPI_Irecv(in, n, MPI_BYTE, left(), tag, MPI_COMM_WORLD, &recv));
			MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs a posted receive */
			if (s == 4)
				cycle();
			CHECK(!send_by(mode, out, n, right(), tag, &send));
			CHECK(!MPI_Wait(&recv, &status));
			CHECK(!MPI_Wait(&send, MPI_STATUS_IGNORE));
			CHECK(recv == MPI_REQUEST_NULL && send == MPI_REQUEST_NULL);
			CHECK(status.MPI_SOURCE == left() && status.MPI_TAG == tag);
			CHECK(count_of(&status, MPI_BYTE) == n && is_filled(in, n, left(), tag));
		}
	}
	free(out);
	free(in);
}

static int size_of(int i)
{
	return i % 100 == 99 ? 70000 + i : i % 10 == 9 ? 5000 + i : i % 64;
}

/* All ranks have sent everything before any rank receives. */
void test_unreceived(void)
{
	int others = size - 1;
	MPI_Request *sends = malloc((size_t)(others * PAIR) * sizeof(*sends));
	unsigned char *out[PAIR], *in = malloc(LARGE);
	int n = 0;

	for (int i = 0; i < PAIR; i++) {
		out[i] = malloc((size_t)size_of(i) + 1);
		fill(out[i], size_of(i), rank, i);
		for (int to = 0; to < size; to++)
			if (to != rank)
				MPI_Isend(out[i], size_of(i), MPI_BYTE, to, i % 5, MPI_COMM_WORLD,
					  &sends[n++]);
	}
	cycle();
	for (int from = 0; from < size; from++) {
		for (int i = 0; from != rank && i < PAIR; i++) {
			MPI_Status status;

			CHECK(!MPI_Recv(in, LARGE, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD,
					&status));
			CHECK(status.MPI_SOURCE == from && status.MPI_TAG == i % 5);
			CHECK(count_of(&status, MPI_BYTE) == size_of(i));
			CHECK(is_filled(in, size_of(i), from, i));
			if (i == PAIR / 2)
				cycle();
		}
	}
	CHECK(!MPI_Waitall(n, sends, MPI_STATUSES_IGNORE));
	for (int i = 0; i < PAIR; i++)
		free(out[i]);
	free(sends);
	free(in);
}

/* Receives are posted before the cycle; a message after it goes to the oldest that matches. */
void test_any_source(void)
{
	MPI_Request recv[4];
	MPI_Status status[4];
	int got[4] = { 0 }, value;

	if (rank == 0) {
		MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &recv[0]);
		MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
			  &recv[1]);
		MPI_Irecv(&got[2], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &recv[2]);
		MPI_Irecv(&got[3], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &recv[3]);
	}
	cycle();
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; rank == 1 && i < 4; i++) {
		value = 100 + i;
		MPI_Send(&value, 1, MPI_INT, 0, i == 1 ? 1 : 2, MPI_COMM_WORLD);
	}
	if (rank)
		return;
	CHECK(!MPI_Waitall(4, recv, status));
	/* the tags arrive in the order 2, 1, 2, 2 */
	CHECK(got[1] == 100 && got[0] == 101 && got[2] == 102 && got[3] == 103);
	CHECK(status[1].MPI_TAG == 2 && status[0].MPI_TAG == 1 && status[2].MPI_TAG == 2);
	CHECK(status[3].MPI_SOURCE == 1 && count_of(&status[3], MPI_INT) == 1);
}

/* Messages in flight with many tags; one of their receives is posted, and others that do not
 * match. */
void test_order(void)
{
	enum { N = 30 };
	int out[N], in, early = -1;
	MPI_Request sends[N], posted = MPI_REQUEST_NULL, recv;
	MPI_Status status;

	if (rank == 0)
		MPI_Irecv(&early, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, &posted);
	for (int i = 0; rank == 1 && i < N; i++) {
		out[i] = i;
		MPI_Isend(&out[i], 1, MPI_INT, 0, i % 3, MPI_COMM_WORLD, &sends[i]);
	}
	cycle();
	for (int i = 1; rank == 0 && i < N; i += 3) {
		CHECK(!MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
		CHECK(in == i && status.MPI_SOURCE == 1 && status.MPI_TAG == 1);
	}
	cycle();
	for (int i = 0; rank == 0 && i < N; i++) {
		if (i % 3 == 1)
			continue;
		CHECK(!MPI_Irecv(&in, 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &recv));
		CHECK(!MPI_Wait(&recv, &status));
		CHECK(in == i && status.MPI_TAG == i % 3);
	}
	if (rank == 1) {
		CHECK(!MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
		in = 4711;
		MPI_Send(&in, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
	} else if (rank == 0) {
		CHECK(!MPI_Wait(&posted, &status) && early == 4711 && status.MPI_TAG == 77);
	}
}

void test_self(void)
{
	unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
	MPI_Request sends[2], recv;
	int value = rank, got = -1;

	fill(out, LARGE, rank, 3);
	MPI_Isend(out, LARGE, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &sends[0]);
	MPI_Isend(&value, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &sends[1]);
	cycle();
	CHECK(!MPI_Recv(&got, 1, MPI_INT, 0, 4, MPI_COMM_SELF, MPI_STATUS_IGNORE) && got == rank);
	CHECK(!MPI_Irecv(in, LARGE, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &recv));
	CHECK(!MPI_Wait(&recv, MPI_STATUS_IGNORE) && is_filled(in, LARGE, rank, 3));
	CHECK(!MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
	free(out);
	free(in);
}

/* The same envelope in several communicators, one of them an intercommunicator. */
void test_communicators(void)
{
	MPI_Comm dup, half, inter;
	MPI_Request sends[3];
	int out[3], in, to, remote = size / 2;

	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 9, &inter);
	for (int i = 0; i < 3; i++)
		out[i] = rank * 10 + i;
	MPI_Isend(&out[0], 1, MPI_INT, right(), 5, MPI_COMM_WORLD, &sends[0]);
	MPI_Isend(&out[1], 1, MPI_INT, right(), 5, dup, &sends[1]);
	to = (rank / 2 + 1) % remote;
	MPI_Isend(&out[2], 1, MPI_INT, to, 5, inter, &sends[2]);
	cycle();
	CHECK(!MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE));
	CHECK(in == left() * 10 + 1);
	CHECK(!MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, MPI_STATUS_IGNORE));
	CHECK(in == ((rank / 2 + remote - 1) % remote * 2 + 1 - rank % 2) * 10 + 2);
	CHECK(!MPI_Recv(&in, 1, MPI_INT, left(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(in == left() * 10);
	CHECK(!MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	MPI_Comm_free(&dup);
}

void test_sendrecv(void)
{
	unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
	int columns[4][4], n = 70000;
	MPI_Datatype column;
	MPI_Status status;

	fill(out, LARGE, rank, 1);
	CHECK(!MPI_Sendrecv(out, LARGE, MPI_BYTE, right(), 1, in, LARGE, MPI_BYTE, left(), 1,
			    MPI_COMM_WORLD, &status));
	CHECK(status.MPI_SOURCE == left() && is_filled(in, LARGE, left(), 1));
	fill(out, n, rank, 2);
	CHECK(!MPI_Sendrecv_replace(out, n, MPI_BYTE, right(), 2, left(), 2, MPI_COMM_WORLD,
				    &status));
	CHECK(count_of(&status, MPI_BYTE) == n && is_filled(out, n, left(), 2));
	MPI_Type_vector(4, 1, 4, MPI_INT, &column);
	MPI_Type_commit(&column);
	for (int i = 0; i < 16; i++)
		columns[i / 4][i % 4] = rank * 100 + i;
	CHECK(!MPI_Sendrecv_replace(&columns[0][1], 1, column, right(), 3, left(), 3,
				    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	for (int i = 0; i < 16; i++)
		CHECK(columns[i / 4][i % 4] == (i % 4 == 1 ? left() : rank) * 100 + i);
	MPI_Type_free(&column);
	CHECK(MPI_Sendrecv(out, 1, MPI_BYTE, size, 1, in, 1, MPI_BYTE, left(), 88, MPI_COMM_WORLD,
			   &status)); /* the receive must not stay posted */
	cycle();
	free(out);
	free(in);
}

void test_proc_null(void)
{
	int value = 5, flag = 0;
	MPI_Request r;
	MPI_Message message;
	MPI_Status status;

	CHECK(!MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
	CHECK(!MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
	CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
	CHECK(count_of(&status, MPI_INT) == 0 && value == 5);
	CHECK(!MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r));
	cycle();
	CHECK(!MPI_Wait(&r, &status) && status.MPI_SOURCE == MPI_PROC_NULL);
	CHECK(!MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status) && flag);
	CHECK(!MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
	CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
	cycle();
	CHECK(!MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
	CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
}

void test_bsend(void)
{
	enum { N = 20000, BUFFER_SIZE = 4 * (N + MPI_BSEND_OVERHEAD) };
	unsigned char *out = malloc(N), *in = malloc(N);
	void *buffer = malloc(BUFFER_SIZE), *back = NULL;
	MPI_Request r;
	int detached = 0;

	CHECK(!MPI_Buffer_attach(buffer, BUFFER_SIZE));
	for (int i = 0; i < 3; i++) {
		fill(out, N, rank, i);
		if (i == 2) {
			CHECK(!MPI_Ibsend(out, N, MPI_BYTE, right(), i, MPI_COMM_WORLD, &r));
			CHECK(!MPI_Wait(&r, MPI_STATUS_IGNORE));
		} else {
			CHECK(!MPI_Bsend(out, N, MPI_BYTE, right(), i, MPI_COMM_WORLD));
		}
		memset(out, 0, N);
	}
	cycle();
	for (int i = 2; i >= 0; i--) {
		CHECK(!MPI_Recv(in, N, MPI_BYTE, left(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		CHECK(is_filled(in, N, left(), i));
	}
	fill(out, N, rank, 9);
	CHECK(!MPI_Bsend(out, N, MPI_BYTE, right(), 9, MPI_COMM_WORLD)); /* still attached */
	CHECK(!MPI_Recv(in, N, MPI_BYTE, left(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	CHECK(is_filled(in, N, left(), 9));
	CHECK(!MPI_Buffer_detach(&back, &detached) && back == buffer && detached == BUFFER_SIZE);
	free(buffer);
	free(out);
	free(in);
}
