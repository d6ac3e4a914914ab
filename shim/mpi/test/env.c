// SPDX-License-Identifier: Apache-2.0
/* The environment of MPI programs, one part a run: `env level N` for thread levels, `env clock` for
 * a clock that goes back, `env abort` for MPI_Abort of two ranks. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

/* ---- threads -------------------------------------------------------------------------------- */

static void *to_itself(void *tag)
{
	for (int i = 0; i < 1000; i++) {
		int got = -1;

		MPI_Sendrecv(&i, 1, MPI_INT, 0, *(int *)tag, &got, 1, MPI_INT, 0, *(int *)tag,
			     MPI_COMM_SELF, MPI_STATUS_IGNORE);
		if (got != i)
			return tag;
	}
	return NULL;
}

/* With OMPI_MPI_THREAD_LEVEL in the environment MPI_Init requests that level. */
static int level(int wanted)
{
	int tags[] = {1, 2}, got = -1, main_thread = -1;
	pthread_t thread;
	void *wrong = NULL;

	if (getenv("OMPI_MPI_THREAD_LEVEL"))
		MPI_Init(NULL, NULL);
	else
		is_int(MPI_Init_thread(NULL, NULL, wanted, &got), MPI_SUCCESS, "MPI_Init_thread");
	ok(getenv("OMPI_MPI_THREAD_LEVEL") || got == wanted,
	   "MPI_Init_thread provides level %d", wanted);
	MPI_Query_thread(&got);
	is_int(got, wanted, "MPI_Query_thread returns the level");
	MPI_Is_thread_main(&main_thread);
	is_int(main_thread, 1, "this is the main thread");
	if (wanted == MPI_THREAD_MULTIPLE) {
		pthread_create(&thread, NULL, to_itself, &tags[1]);
		ok(!to_itself(&tags[0]), "the first of two threads gets its own messages");
		pthread_join(thread, &wrong);
		ok(!wrong, "the second of two threads gets its own messages");
	}
	MPI_Finalize();
	return tap_done();
}

/* ---- the clock ------------------------------------------------------------------------------ */

static time_t behind;

/* The monotonic clock of a node that was started later. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	if (rc == 0 && clock == CLOCK_MONOTONIC)
		now->tv_sec -= behind;
	return rc;
}

static int clock_back(void)
{
	double before, after;

	before = MPI_Wtime();
	behind = 1000;
	after = MPI_Wtime();
	ok(all_of(after >= before, after < before + 10),
	   "MPI_Wtime does not go back with the clock");
	usleep(20000);
	ok(MPI_Wtime() >= after + 0.015, "MPI_Wtime advances at the clock's pace");
	behind = 0;
	ok(MPI_Wtime() >= after, "MPI_Wtime does not go back when the clock is ahead again");
	return tap_done();
}

/* ---- the end -------------------------------------------------------------------------------- */

static int job_abort(void)
{
	int rank;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank)
		MPI_Abort(MPI_COMM_WORLD, 7);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "level"))
		return level(atoi(argv[2]));
	if (argc > 1 && !strcmp(argv[1], "clock"))
		return clock_back();
	if (argc > 1 && !strcmp(argv[1], "abort"))
		return job_abort();
	return 2;
}
