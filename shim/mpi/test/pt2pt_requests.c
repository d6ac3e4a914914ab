// SPDX-License-Identifier: Apache-2.0
/* Requests: persistent, completed in each way, cancelled, freed early, generalized. */
#include "shim/mpi/test/pt2pt.h"

static void starts(MPI_Request *send, MPI_Request *recv, int *out, int *in, int round)
{
	for (int i = 0; i < 4; i++)
		out[i] = rank * 1000 + round * 10 + i;
	memset(in, 0, 4 * sizeof(*in));
	CHECK(!MPI_Startall(4, recv));
	MPI_Barrier(MPI_COMM_WORLD);
	if (round == 1)
		cycle(); /* active receives, no message */
	for (int i = 0; i < 4; i++)
		CHECK(!MPI_Start(&send[i]));
	if (round == 2)
		cycle(); /* active sends, received by active receives */
}

void test_persistent(void)
{
	static char space[4096];
	int out[4], in[4], to = (rank + 1) % size, from = (rank + size - 1) % size, back;
	MPI_Request send[4], recv[4];
	MPI_Status statuses[4];
	void *buffer;

	MPI_Buffer_attach(space, sizeof(space));
	MPI_Send_init(&out[0], 1, MPI_INT, to, 0, MPI_COMM_WORLD, &send[0]);
	MPI_Bsend_init(&out[1], 1, MPI_INT, to, 1, MPI_COMM_WORLD, &send[1]);
	MPI_Ssend_init(&out[2], 1, MPI_INT, to, 2, MPI_COMM_WORLD, &send[2]);
	MPI_Rsend_init(&out[3], 1, MPI_INT, to, 3, MPI_COMM_WORLD, &send[3]);
	for (int i = 0; i < 4; i++)
		MPI_Recv_init(&in[i], 1, MPI_INT, i == 3 ? MPI_ANY_SOURCE : from, i, MPI_COMM_WORLD,
			      &recv[i]);
	for (int round = 0; round < 5; round++) {
		starts(send, recv, out, in, round);
		CHECK(!MPI_Waitall(4, recv, statuses) &&
		      !MPI_Waitall(4, send, MPI_STATUSES_IGNORE));
		for (int i = 0; i < 4; i++) {
			CHECK(in[i] == from * 1000 + round * 10 + i && recv[i] != MPI_REQUEST_NULL);
			CHECK(statuses[i].MPI_SOURCE == from && statuses[i].MPI_TAG == i);
		}
		if (round == 3)
			cycle(); /* inactive */
	}
	out[0] = 17;
	CHECK(!MPI_Start(&send[0]));
	cycle(); /* sent, no receive started */
	CHECK(!MPI_Start(&recv[0]) && !MPI_Wait(&recv[0], statuses) && in[0] == 17);
	CHECK(!MPI_Start(&recv[0]));
	CHECK(!MPI_Cancel(&recv[0]) && !MPI_Wait(&recv[0], statuses));
	CHECK(!MPI_Wait(&send[0], MPI_STATUS_IGNORE));
	for (int i = 0; i < 4; i++)
		CHECK(!MPI_Request_free(&send[i]) && !MPI_Request_free(&recv[i]));
	MPI_Buffer_detach(&buffer, &back);
}

enum { MANY = 100 }; /* more than one call handles */

static int collect_one(int how, MPI_Request *r, int *indices, MPI_Status *statuses)
{
	int n = 0, flag = 0;

	switch (how) {
	case 0:
		CHECK(!MPI_Waitany(MANY, r, indices, statuses));
		return 1;
	case 1:
		while (!flag)
			CHECK(!MPI_Testany(MANY, r, indices, &flag, statuses));
		return 1;
	case 2:
		CHECK(!MPI_Waitsome(MANY, r, &n, indices, statuses));
		return n;
	default:
		while (!n)
			CHECK(!MPI_Testsome(MANY, r, &n, indices, statuses));
		return n;
	}
}

void test_wait_some(void)
{
	int out[MANY], in[MANY], indices[MANY], flag = 0;
	MPI_Request recv[MANY], send[MANY];
	MPI_Status statuses[MANY];

	for (int how = 0; how < 4; how++) {
		for (int i = 0; i < MANY; i++)
			MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &recv[i]);
		CHECK(!MPI_Testall(MANY, recv, &flag, statuses) && !flag);
		cycle();
		MPI_Barrier(MPI_COMM_WORLD);
		for (int i = MANY - 1; i >= 0; i--) {
			out[i] = i * 3 + rank;
			MPI_Isend(&out[i], 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD,
				  &send[i]);
			if (how == 3 && i == MANY / 2)
				cycle();
		}
		for (int got = 0; got < MANY;) {
			int n = collect_one(how, recv, indices, statuses);

			for (int i = 0; i < n; i++) {
				CHECK(recv[indices[i]] == MPI_REQUEST_NULL);
				CHECK(statuses[i].MPI_TAG == indices[i]);
				CHECK(in[indices[i]] == indices[i] * 3 + statuses[i].MPI_SOURCE);
			}
			got += n;
		}
		for (flag = 0; !flag;)
			CHECK(!MPI_Testall(MANY, send, &flag, MPI_STATUSES_IGNORE));
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

void test_in_status(void)
{
	int out[8] = { 1, 2, 3 }, in[2][8];
	MPI_Request r[2], send[2];
	MPI_Status statuses[2];
	int to = (rank + 1) % size, from = (rank + size - 1) % size, class, rc;

	MPI_Isend(out, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &send[0]);
	MPI_Isend(out, 8, MPI_INT, to, 2, MPI_COMM_WORLD, &send[1]);
	cycle();
	MPI_Irecv(in[0], 8, MPI_INT, from, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(in[1], 2, MPI_INT, from, 2, MPI_COMM_WORLD, &r[1]);
	rc = MPI_Waitall(2, r, statuses);
	CHECK(rc == MPI_ERR_IN_STATUS && statuses[0].MPI_ERROR == MPI_SUCCESS);
	MPI_Error_class(statuses[1].MPI_ERROR, &class);
	CHECK(class == MPI_ERR_TRUNCATE && r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
	CHECK(!MPI_Waitall(2, send, MPI_STATUSES_IGNORE));
}

static void check_empty(const MPI_Status *s)
{
	int cancelled = 1;

	CHECK(s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG);
	CHECK(count_of(s, MPI_BYTE) == 0 && !MPI_Test_cancelled(s, &cancelled) && !cancelled);
}

void test_null_requests(void)
{
	MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Status s, statuses[2];
	int value, index = 0, flag = 0, n = 0, indices[2];

	MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &r[1]);
	cycle();
	for (int i = 0; i < 2; i++) {
		s.MPI_ERROR = 12345;
		CHECK(!MPI_Wait(&r[i], &s));
		check_empty(&s);
		CHECK(s.MPI_ERROR == 12345);
		CHECK(!MPI_Test(&r[i], &flag, &s) && flag);
		check_empty(&s);
	}
	CHECK(!MPI_Waitany(2, r, &index, &s) && index == MPI_UNDEFINED);
	check_empty(&s);
	CHECK(!MPI_Testany(2, r, &index, &flag, &s) && flag && index == MPI_UNDEFINED);
	check_empty(&s);
	CHECK(!MPI_Waitsome(2, r, &n, indices, statuses) && n == MPI_UNDEFINED);
	CHECK(!MPI_Testsome(2, r, &n, indices, statuses) && n == MPI_UNDEFINED);
	CHECK(!MPI_Waitall(2, r, statuses));
	check_empty(&statuses[0]);
	check_empty(&statuses[1]);
	CHECK(!MPI_Testall(2, r, &flag, statuses) && flag);
	CHECK(!MPI_Waitany(0, NULL, &index, &s) && index == MPI_UNDEFINED);
	CHECK(!MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
	CHECK(!MPI_Request_free(&r[1]) && r[1] == MPI_REQUEST_NULL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Request_free(&r[0]) == MPI_ERR_REQUEST && MPI_Cancel(&r[0]) == MPI_ERR_REQUEST);
}

void test_cancel(void)
{
	int value = 0, cancelled = 0, out = 6;
	MPI_Request r, late, send;
	MPI_Status s;

	MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &r);
	CHECK(!MPI_Cancel(&r));
	cycle();
	CHECK(!MPI_Wait(&r, &s) && !MPI_Test_cancelled(&s, &cancelled) && cancelled);
	CHECK(r == MPI_REQUEST_NULL);
	MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD, &send);
	cycle();
	MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &late);
	MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &r);
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(!MPI_Cancel(&late) && !MPI_Wait(&late, &s));
	CHECK(!MPI_Test_cancelled(&s, &cancelled) && cancelled);
	CHECK(!MPI_Wait(&r, &s) && !MPI_Test_cancelled(&s, &cancelled) && !cancelled && value == 6);
	CHECK(!MPI_Wait(&send, MPI_STATUS_IGNORE));
}

void test_request_free(void)
{
	int *in = calloc(2, sizeof(*in)), out[2] = { 8, 9 }, to = (rank + 1) % size, flag;
	MPI_Request recv, send;
	MPI_Status s;

	MPI_Irecv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &recv);
	CHECK(!MPI_Request_free(&recv) && recv == MPI_REQUEST_NULL);
	MPI_Recv_init(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &recv);
	MPI_Start(&recv);
	CHECK(!MPI_Request_free(&recv) && recv == MPI_REQUEST_NULL);
	cycle();
	MPI_Isend(&out[0], 1, MPI_INT, to, 1, MPI_COMM_WORLD, &send);
	CHECK(!MPI_Request_free(&send) && send == MPI_REQUEST_NULL);
	MPI_Send(&out[1], 1, MPI_INT, to, 2, MPI_COMM_WORLD);
	cycle();
	while (*(volatile int *)&in[0] != 8 || *(volatile int *)&in[1] != 9)
		MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, &s);
	CHECK(in[0] == 8 && in[1] == 9);
	MPI_Barrier(MPI_COMM_WORLD);
	free(in);
}

void test_get_status(void)
{
	int value = 0, out = 3, flag = 0;
	MPI_Request recv, send;
	MPI_Status s;

	MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &recv);
	CHECK(!MPI_Request_get_status(recv, &flag, &s) && !flag);
	MPI_Barrier(MPI_COMM_WORLD);
	cycle();
	MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD, &send);
	while (!flag)
		CHECK(!MPI_Request_get_status(recv, &flag, &s));
	CHECK(s.MPI_TAG == 4 && value == 3 && recv != MPI_REQUEST_NULL);
	cycle(); /* complete, but not collected by the program */
	CHECK(!MPI_Request_get_status(recv, &flag, MPI_STATUS_IGNORE) && flag);
	CHECK(!MPI_Wait(&recv, &s) && s.MPI_TAG == 4 && count_of(&s, MPI_INT) == 1);
	CHECK(!MPI_Wait(&send, MPI_STATUS_IGNORE));
}

static int queried, freed, cancelled_with;

static int query(void *extra, MPI_Status *s)
{
	queried++;
	MPI_Status_set_elements(s, MPI_INT, *(int *)extra);
	MPI_Status_set_cancelled(s, cancelled_with >= 0);
	s->MPI_SOURCE = 42;
	s->MPI_TAG = 43;
	return MPI_SUCCESS;
}

static int release(void *extra)
{
	(void)extra;
	freed++;
	return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
	(void)extra;
	cancelled_with = complete;
	return MPI_SUCCESS;
}

void test_general(void)
{
	int extra = 7, flag = 1, was = 0;
	MPI_Request r, copy;
	MPI_Status s;

	queried = freed = 0;
	cancelled_with = -1;
	CHECK(!MPI_Grequest_start(query, release, cancel, &extra, &r));
	CHECK(!MPI_Test(&r, &flag, &s) && !flag);
	cycle();
	CHECK(!MPI_Grequest_complete(r));
	cycle();
	CHECK(!MPI_Wait(&r, &s) && r == MPI_REQUEST_NULL);
	CHECK(s.MPI_SOURCE == 42 && s.MPI_TAG == 43 && count_of(&s, MPI_INT) == 7);
	CHECK(queried == 1 && freed == 1);
	MPI_Grequest_start(query, release, cancel, &extra, &r);
	copy = r;
	CHECK(!MPI_Request_free(&r) && freed == 1);
	CHECK(!MPI_Grequest_complete(copy) && freed == 2);
	MPI_Grequest_start(query, release, cancel, &extra, &r);
	CHECK(!MPI_Cancel(&r) && cancelled_with == 0);
	MPI_Grequest_complete(r);
	CHECK(!MPI_Waitall(1, &r, &s) && !MPI_Test_cancelled(&s, &was) && was);
}
