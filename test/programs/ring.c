/* SPDX-License-Identifier: Apache-2.0
 * MPI ranks whose answers depend on every message and every step so far: a number is sent around
 * the ring, and all numbers are folded into one. Each rank prints "rank R N: ANSWER after STEPS" at
 * the end.
 *   ring STEPS [PAUSE_US [AT TIME [TIME]]] rank 0 computes for TIME before step AT; AT = init:
 *                                          before MPI_Init; finalize: before MPI_Finalize; after:
 *                                          all ranks compute after MPI_Finalize; around: all ranks
 *                                          compute before MPI_Init, with the library in use, and
 *                                          for the second TIME after MPI_Finalize. With after and
 *                                          around each rank prints "finalized" before it computes.
 *                                          TIME is seconds, or a file: while it exists. A rank that
 *                                          computes prints so
 *   ring want RANKS STEPS                  print the ranks' lines, without MPI
 * With RING_FORGETS in the environment the ranks remove their identity from it once MPI knows it.
 * With RING_UNTIL=FILE in the environment they end when FILE exists, if that is before STEPS. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 64
#define LOOK_STEPS 10 /* between checks for RING_UNTIL */

static int rank, size;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void compute(const char *how_long)
{
	double end = now() + atof(how_long);

	fputs("computes\n", stderr);
	while (*how_long == '/' ? access(how_long, F_OK) == 0 : now() < end)
		if (*how_long == '/')
			usleep(1000);
}

static unsigned long fold(unsigned long from_left, long n, int r)
{
	return from_left * 6364136223846793005ul + (unsigned long)(n + r);
}

static unsigned long step(unsigned long mine, long n)
{
	unsigned long from_left, all;
	int left = (rank + size - 1) % size, right = (rank + 1) % size;

	/* even ranks send first: a blocking send may wait for its receiver */
	if (rank % 2 == 0)
		MPI_Send(&mine, 1, MPI_UNSIGNED_LONG, right, 7, MPI_COMM_WORLD);
	MPI_Recv(&from_left, 1, MPI_UNSIGNED_LONG, left, MPI_ANY_TAG, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	if (rank % 2)
		MPI_Send(&mine, 1, MPI_UNSIGNED_LONG, right, 7, MPI_COMM_WORLD);
	mine = fold(from_left, n, rank);
	MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_BXOR, MPI_COMM_WORLD);
	return mine ^ all;
}

static void print(int r, int n, unsigned long answer, long steps)
{
	printf("rank %d %d: %016lx after %ld\n", r, n, answer, steps);
	fflush(stdout);
}

static int want(int n, long steps)
{
	unsigned long mine[RANKS_MAX], before[RANKS_MAX], all;

	if (n < 1 || n > RANKS_MAX)
		return 2;
	for (int r = 0; r < n; r++)
		mine[r] = (unsigned long)r + 1;
	for (long s = 0; s < steps; s++) {
		memcpy(before, mine, sizeof before);
		all = 0;
		for (int r = 0; r < n; r++)
			all ^= mine[r] = fold(before[(r + n - 1) % n], s, r);
		for (int r = 0; r < n; r++)
			mine[r] ^= all;
	}
	for (int r = 0; r < n; r++)
		print(r, n, mine[r], steps);
	return 0;
}

/* All ranks get the same answer. */
static int is_enough(const char *file)
{
	int enough = file && rank == 0 && access(file, F_OK) == 0;

	if (file)
		MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return enough;
}

/* Before MPI_Init only the launcher knows the ranks. */
static int first_rank(void)
{
	const char *text = getenv("PMIX_RANK");

	return text && !strcmp(text, "0");
}

static void forget(void)
{
	unsetenv("PMIX_NAMESPACE");
	unsetenv("PMIX_RANK");
	unsetenv("SLURM_PROCID");
}

static int is_open_mpi(void)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length;

	MPI_Get_library_version(version, &length);
	return !strncmp(version, "Open MPI", 8);
}

int main(int argc, char **argv)
{
	long steps = argc > 1 ? atol(argv[1]) : 1000, pause_us = argc > 2 ? atol(argv[2]) : 0;
	const char *where = argc > 4 ? argv[3] : "-1", *until = getenv("RING_UNTIL");
	const char *how_long = argc > 4 ? argv[4] : "0", *after = argc > 5 ? argv[5] : how_long;
	long at = strspn(where, "0123456789") == strlen(where) ? atol(where) : -1, n;
	unsigned long mine;

	if (argc == 4 && !strcmp(argv[1], "want"))
		return want(atoi(argv[2]), atol(argv[3]));
	if (!strcmp(where, "init") && first_rank())
		compute(how_long);
	if (!strcmp(where, "around") && is_open_mpi())
		compute(how_long);
	MPI_Init(&argc, &argv);
	if (getenv("RING_FORGETS"))
		forget();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mine = (unsigned long)rank + 1;
	for (n = 0; n < steps && !(n % LOOK_STEPS == 0 && is_enough(until)); n++) {
		if (n == at && rank == 0)
			compute(how_long);
		mine = step(mine, n);
		if (pause_us)
			nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
		if (rank == 0 && n % 100 == 0)
			fprintf(stderr, "step %ld\n", n);
	}
	print(rank, size, mine, n);
	if (!strcmp(where, "finalize") && rank == 0)
		compute(how_long);
	MPI_Finalize();
	if (!strcmp(where, "after") || (!strcmp(where, "around") && is_open_mpi())) {
		fputs("finalized\n", stderr);
		compute(after);
	}
	return 0;
}
