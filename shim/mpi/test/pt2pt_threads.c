// SPDX-License-Identifier: Apache-2.0
/* Threads of all ranks exchange messages, each with its own tags, during cycles at any time
 * (GPUCKPT_MPI_TEST_MS). TAP from rank 0. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/tap.h"

enum { THREADS = 3, LARGE = 20000 };

static int rank, size, rounds;
static int wrong[THREADS];

static void check(int thread, bool good, int line)
{
	if (!good && wrong[thread]++ == 0)
		fprintf(stderr, "# rank %d, thread %d: line %d\n", rank, thread, line);
}

#define CHECK(good) check(thread, good, __LINE__)

static void ring(int thread, int round, int *out, int *in)
{
	int n = round % 3 ? 10 : LARGE, tag = thread * 10, to = (rank + 1) % size;
	int from = (rank + size - 1) % size;
	MPI_Status status;

	for (int i = 0; i < n; i++)
		out[i] = rank * 7 + thread * 5 + round + i;
	if (rank % 2) {
		CHECK(!MPI_Recv(in, LARGE, MPI_INT, from, tag, MPI_COMM_WORLD, &status));
		CHECK(!MPI_Send(out, n, MPI_INT, to, tag, MPI_COMM_WORLD));
	} else {
		CHECK(!MPI_Send(out, n, MPI_INT, to, tag, MPI_COMM_WORLD));
		CHECK(!MPI_Recv(in, LARGE, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
	}
	CHECK(status.MPI_SOURCE == from && status.MPI_TAG == tag);
	for (int i = 0; i < n; i++)
		CHECK(in[i] == from * 7 + thread * 5 + round + i);
}

/* All ranks send to all and receive in the order of arrival. */
static void all(int thread, int round, int *out, int *in)
{
	MPI_Request send[64], recv[64];
	int tag = thread * 10 + 1, index;
	MPI_Status status;

	for (int r = 0; r < size; r++) {
		out[r] = rank * 1000 + round * 10 + thread;
		CHECK(!MPI_Irecv(&in[r], 1, MPI_INT, r, tag, MPI_COMM_WORLD, &recv[r]));
	}
	for (int r = 0; r < size; r++)
		CHECK(!MPI_Isend(&out[r], 1, MPI_INT, r, tag, MPI_COMM_WORLD, &send[r]));
	for (int r = 0; r < size; r++) {
		CHECK(!MPI_Waitany(size, recv, &index, &status));
		CHECK(status.MPI_SOURCE == index &&
		      in[index] == index * 1000 + round * 10 + thread);
	}
	CHECK(!MPI_Waitall(size, send, MPI_STATUSES_IGNORE));
}

static void *send_to_oneself(void *buf)
{
	MPI_Send(buf, 64, MPI_LONG_DOUBLE_INT, 0, 9, MPI_COMM_SELF);
	return NULL;
}

/* One thread is in a send that waits for another thread's receive; a checkpoint finds it
 * outside. */
static void oneself(void)
{
	int (*cycle)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");
	char buf[64 * 32] = { 0 }, in[64 * 32];
	pthread_t thread;

	pthread_create(&thread, NULL, send_to_oneself, buf);
	usleep(200000);
	if (getenv("GPUCKPT_MPI_TEST") && cycle && cycle())
		wrong[0]++;
	MPI_Recv(in, 64, MPI_LONG_DOUBLE_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
	pthread_join(thread, NULL);
}

static void *run(void *arg)
{
	int thread = (int)(intptr_t)arg;
	int *out = malloc(LARGE * sizeof(*out)), *in = malloc(LARGE * sizeof(*in));

	for (int round = 0; round < rounds; round++) {
		ring(thread, round, out, in);
		all(thread, round, out, in);
	}
	free(out);
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int level, mine = 0, sum = 0, failed = 0;

	rounds = argc > 1 ? atoi(argv[1]) : 100;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (level == MPI_THREAD_MULTIPLE) {
		oneself();
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
		for (int i = 0; i < THREADS; i++) {
			pthread_join(threads[i], NULL);
			mine += wrong[i];
		}
	}
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) {
		ok(all_of(level == MPI_THREAD_MULTIPLE, sum == 0),
		   "threads get their own messages");
		failed = tap_done();
	}
	MPI_Finalize();
	return failed;
}
