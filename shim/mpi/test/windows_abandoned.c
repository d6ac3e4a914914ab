/* SPDX-License-Identifier: Apache-2.0
 * Rank 0 has operations in progress on a window of rank 1, which computes, and enters a checkpoint
 * that fails because rank 1 does not know of it (windows_abandoned unknowing) or leaves it first
 * (windows_abandoned gone). Rank 0 continues at once, not only when rank 1 calls MPI again. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

#define OPERATIONS 30000
#define COMPUTES_S 5  /* after the checkpoint was called off */
#define LONGEST_S 100 /* if it is not called off */
#define FIRST_WORDS 1

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* True if rank `who` has written its words of this exchange (test_cycle.c). */
static bool is_there(int exchange, int who)
{
	char name[512];

	snprintf(name, sizeof name, "%s/%d.%d", getenv("GPUCKPT_MPI_TEST"), exchange, who);
	return access(name, F_OK) == 0;
}

/* The file by which a rank reports that it has left MPI, so that no rank continues a checkpoint. */
static const char *off_switch(void)
{
	static char name[512];

	snprintf(name, sizeof name, "%s/left", getenv("GPUCKPT_MPI_TEST"));
	return name;
}

static void leave(void)
{
	FILE *f = fopen(off_switch(), "w");

	if (f)
		fclose(f);
}

static void *take_part(void *unused)
{
	int (*cycle)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");

	if (cycle)
		cycle();
	return unused;
}

/* Rank 1 computes, and calls the checkpoint off when rank 0 is in it. */
static void compute(bool takes_part)
{
	double end = now() + LONGEST_S, off = 0;
	pthread_t thread;

	if (takes_part)
		pthread_create(&thread, NULL, take_part, NULL);
	while (now() < end) {
		bool in_it = takes_part ? is_there(FIRST_WORDS + 1, 1) : is_there(FIRST_WORDS, 0);

		if (in_it && off == 0) {
			off = now() + (takes_part ? 0 : 1);
			end = off + COMPUTES_S;
		}
		if (off != 0 && now() > off)
			leave();
	}
	if (takes_part)
		pthread_join(thread, NULL);
}

/* Rank 0 continues when the checkpoint is called off. */
static void operate(MPI_Win win)
{
	long one = 1;
	int size;

	for (int i = 0; i < OPERATIONS; i++)
		MPI_Accumulate(&one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
	take_part(NULL);
	MPI_Type_size(MPI_LONG, &size);
}

int main(int argc, char **argv)
{
	bool takes_part = argc > 1 && !strcmp(argv[1], "gone");
	double went_on = 0, computed = 0;
	long *memory;
	MPI_Win win;
	int rank;

	setenv("OMPI_MCA_osc", "pt2pt", 1);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &rank);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
			 &win);
	*memory = 0;
	MPI_Win_lock_all(0, win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		operate(win);
	else
		compute(takes_part);
	if (rank == 0)
		went_on = now();
	else
		computed = now();
	MPI_Bcast(&computed, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		ok(went_on < computed - 1, "rank 0 continues %.1f s before rank 1 does",
		   computed - went_on);
	else if (*memory != OPERATIONS)
		printf("not ok - rank 1: %ld operations of %d\n", *memory, OPERATIONS);
	MPI_Win_free(&win);
	MPI_Finalize();
	return rank == 0 ? tap_done() : 0;
}
