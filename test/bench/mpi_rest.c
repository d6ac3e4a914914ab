/* SPDX-License-Identifier: Apache-2.0
 * mpi_rest MESSAGES: MPI ranks at rest, for the benchmarks. Each has MESSAGES messages in flight to
 * each other rank, none of them received, and sleeps until a file go.N exists (N: the round). Then
 * all are received, checked and sent again. Rank 0 prints "init SECONDS", the time of MPI_Init in
 * the slowest rank, and "flooded N" when the messages of round N are in flight. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORDS 8 /* of a message */

static int rank, size, messages;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

/* The n-th message from one rank to another in a round. */
static long word(int from, int to, int n, long round)
{
	return ((round * size + from) * size + to) * messages + n;
}

static void flood(MPI_Request *requests, long (*out)[WORDS], long round)
{
	int i = 0;

	for (int to = 0; to < size; to++)
		for (int n = 0; to != rank && n < messages; n++, i++) {
			for (int w = 0; w < WORDS; w++)
				out[i][w] = word(rank, to, n, round);
			MPI_Isend(out[i], WORDS, MPI_LONG, to, n, MPI_COMM_WORLD, &requests[i]);
		}
	MPI_Waitall(i, requests, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* In the opposite order of sending, so that only the tag matches them. */
static void receive_all(long round)
{
	long in[WORDS];

	for (int from = 0; from < size; from++)
		for (int n = messages - 1; from != rank && n >= 0; n--) {
			MPI_Recv(in, WORDS, MPI_LONG, from, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int w = 0; w < WORDS; w++)
				if (in[w] != word(from, rank, n, round)) {
					fprintf(stderr, "rank %d: message %d of rank %d is wrong\n",
						rank, n, from);
					MPI_Abort(MPI_COMM_WORLD, 1);
				}
		}
}

static void wait_for_go(void)
{
	char name[32];
	static int n;

	snprintf(name, sizeof(name), "go.%d", n++);
	while (access(name, F_OK))
		nap();
}

int main(int argc, char **argv)
{
	double begin = now(), took, most;
	MPI_Request *requests;
	long (*out)[WORDS];

	MPI_Init(&argc, &argv);
	took = now() - begin;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		fprintf(stderr, "init %.4f\n", most);
	messages = argc > 1 ? atoi(argv[1]) : 0;
	requests = calloc((size_t)(messages * size) + 1, sizeof(*requests));
	out = calloc((size_t)(messages * size) + 1, sizeof(*out));
	for (long round = 0;; round++) {
		flood(requests, out, round);
		if (rank == 0)
			fprintf(stderr, "flooded %ld\n", round);
		wait_for_go();
		receive_all(round);
	}
}
