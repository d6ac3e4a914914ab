/* SPDX-License-Identifier: Apache-2.0
 * Chapter 3, point-to-point communication. */
#include "test/mpi/chapters/chapters.h"

enum { LARGE = 300000 };

static void every_mode(void)
{
	int in[4] = {-1, -1, -1, -1}, out = rank + 10, bytes;
	MPI_Request r[4];
	char space[1024];
	void *buffer;

	MPI_Buffer_attach(space, sizeof(space));
	for (int i = 0; i < 4; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &r[i]);
	pending();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(&out, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
	MPI_Bsend(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
	MPI_Ssend(&out, 1, MPI_INT, right, 2, MPI_COMM_WORLD);
	MPI_Rsend(&out, 1, MPI_INT, right, 3, MPI_COMM_WORLD);
	pending();
	MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
	MPI_Buffer_detach(&buffer, &bytes);
	put_ints(4, in);
	put(" %d %d", buffer == space, bytes);
}

static void put_status(const MPI_Status *s)
{
	int count = -5, elements = -5, cancelled = -5;

	MPI_Get_count(s, MPI_INT, &count);
	MPI_Get_elements(s, MPI_SHORT, &elements);
	MPI_Test_cancelled(s, &cancelled);
	put(" source %d tag %d ints %d shorts %d cancelled %d", s->MPI_SOURCE, s->MPI_TAG, count,
	    elements, cancelled);
}

static void no_process(void)
{
	int in = 7;
	MPI_Status s;

	put_class(MPI_Send(&in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
	put_class(MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &s));
	put_status(&s);
	put_class(MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &s));
	put_status(&s);
	put(" %d", in);
}

static void order(void)
{
	int in[10];
	MPI_Request r[10];

	for (int i = 0; i < 10; i++) {
		MPI_Isend(&(int){rank * 100 + i}, 1, MPI_INT, right, i % 2, MPI_COMM_WORLD, &r[i]);
		MPI_Wait(&r[i], MPI_STATUS_IGNORE);
	}
	pending();
	for (int i = 0; i < 10; i++)
		MPI_Recv(&in[i], 1, MPI_INT, left, i < 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	put_ints(10, in);
}

static void wildcards(void)
{
	int *seen = calloc((size_t)size, sizeof(*seen)), v;
	MPI_Status s;

	for (int i = 0; i < size; i++)
		MPI_Send(&rank, 1, MPI_INT, i, 40 + rank, MPI_COMM_WORLD);
	pending();
	for (int i = 0; i < size; i++) {
		MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
		seen[s.MPI_SOURCE] += v == s.MPI_SOURCE && s.MPI_TAG == 40 + v;
	}
	put_ints(size, seen);
	free(seen);
}

static void truncation(void)
{
	int in[2] = {1, 2};
	MPI_Status s;

	MPI_Send((int[]){3, 4, 5}, 3, MPI_INT, right, 5, MPI_COMM_WORLD);
	pending();
	put_class(MPI_Recv(in, 2, MPI_INT, left, 5, MPI_COMM_WORLD, &s));
	put(" source %d tag %d", s.MPI_SOURCE, s.MPI_TAG);
}

static void probes(void)
{
	char in[8] = "";
	MPI_Status s;

	MPI_Send("abcdef", 6, MPI_CHAR, right, 6, MPI_COMM_WORLD);
	pending();
	MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
	put_status(&s);
	MPI_Recv(in, 8, MPI_CHAR, left, 6, MPI_COMM_WORLD, &s);
	put(" %s", in);
}

static void matched_probes(void)
{
	MPI_Message m, none;
	MPI_Request r;
	MPI_Status s;
	int v[2] = {0}, flag = 0;

	MPI_Send(&rank, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
	MPI_Send(&size, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
	MPI_Mprobe(left, 7, MPI_COMM_WORLD, &m, &s);
	pending();
	put_status(&s);
	MPI_Recv(&v[1], 1, MPI_INT, left, 7, MPI_COMM_WORLD, &s);
	MPI_Imrecv(&v[0], 1, MPI_INT, &m, &r);
	pending();
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	put_ints(2, v);
	MPI_Improbe(MPI_PROC_NULL, 7, MPI_COMM_WORLD, &flag, &none, &s);
	put(" %d %d %d", flag, none == MPI_MESSAGE_NO_PROC, m == MPI_MESSAGE_NULL);
	MPI_Mrecv(v, 1, MPI_INT, &none, &s);
	put_status(&s);
}

static void several_completions(void)
{
	int in[6], done = 0, some, at[6], all = 0;
	MPI_Request r[7];

	for (int i = 0; i < 6; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &r[i]);
	r[6] = MPI_REQUEST_NULL;
	pending();
	for (int i = 0; i < 6; i++)
		MPI_Send(&(int){rank + i}, 1, MPI_INT, right, i, MPI_COMM_WORLD);
	while (done < 4) {
		MPI_Waitsome(7, r, &some, at, MPI_STATUSES_IGNORE);
		done += some;
	}
	while (!all)
		MPI_Testall(7, r, &all, MPI_STATUSES_IGNORE);
	put_ints(6, in);
	MPI_Waitany(7, r, at, MPI_STATUS_IGNORE);
	MPI_Testsome(7, r, &some, at + 1, MPI_STATUSES_IGNORE);
	put(" %d %d", at[0] == MPI_UNDEFINED, some == MPI_UNDEFINED);
}

static void persistent(void)
{
	int in = -1, out = rank;
	MPI_Request r[2];

	MPI_Send_init(&out, 1, MPI_INT, right, 8, MPI_COMM_WORLD, &r[0]);
	MPI_Recv_init(&in, 1, MPI_INT, left, 8, MPI_COMM_WORLD, &r[1]);
	for (int i = 0; i < 4; i++) {
		out = rank * 10 + i;
		MPI_Startall(2, r);
		pending();
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		put(" %d", in);
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
	put(" %d", r[1] == MPI_REQUEST_NULL);
}

static void cancelled(void)
{
	MPI_Request r;
	MPI_Status s;
	int in, flag = 0, cancelled = 0;

	MPI_Irecv(&in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &r);
	MPI_Request_get_status(r, &flag, &s);
	pending();
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &cancelled);
	put(" %d %d", flag, cancelled);
}

static void exchanges(void)
{
	int v = rank, in = -1;

	MPI_Sendrecv(&v, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv_replace(&v, 1, MPI_INT, left, 2, right, 2, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	put(" %d %d", in, v);
}

static void large(void)
{
	static int out[LARGE], in[LARGE];
	MPI_Request r[2];
	long sum = 0;

	for (int i = 0; i < LARGE; i++)
		out[i] = rank + i;
	MPI_Isend(out, LARGE, MPI_INT, right, 3, MPI_COMM_WORLD, &r[0]);
	pending();
	MPI_Irecv(in, LARGE, MPI_INT, left, 3, MPI_COMM_WORLD, &r[1]);
	pending();
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < LARGE; i++)
		sum += (long)in[i] * i;
	put(" %ld", sum);
}

static void errors(void)
{
	int v = 0;

	put_class(MPI_Send(&v, -1, MPI_INT, right, 1, MPI_COMM_WORLD));
	put_class(MPI_Send(&v, 1, MPI_INT, size, 1, MPI_COMM_WORLD));
	put_class(MPI_Send(&v, 1, MPI_INT, right, -1, MPI_COMM_WORLD));
	put_class(MPI_Send(&v, 1, MPI_DATATYPE_NULL, right, 1, MPI_COMM_WORLD));
	put_class(MPI_Recv(&v, 1, MPI_INT, size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

const struct claim messages[] = {
	{"each send mode delivers; a detach gives the buffer back", every_mode},
	{"MPI_PROC_NULL: nothing is sent, the status is empty", no_process},
	{"messages of a pair and tag do not overtake", order},
	{"wildcards match each message once", wildcards},
	{"a message that is too long", truncation},
	{"a probe's status, counted in other types", probes},
	{"matched probes; a message of no process", matched_probes},
	{"several completions; null requests", several_completions},
	{"persistent requests start again and again", persistent},
	{"a receive is cancelled", cancelled},
	{"send and receive at once", exchanges},
	{"a message that is sent before its receive is posted", large},
	{"wrong arguments", errors},
	{NULL, NULL},
};
