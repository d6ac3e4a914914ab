/* SPDX-License-Identifier: Apache-2.0
 * Calls that are legal before MPI_Init and after MPI_Finalize, with and without the stand-in, and
 * with GPUCKPT_MPI_TEST over restarts at each stage. One rank. `lifetime early`: a call that is not
 * legal. `lifetime late`, two ranks: a checkpoint is requested while one rank is in MPI_Finalize
 * and the other is not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

static void always_legal(const char *when, int initialized, int finalized)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int flag = -1, major = 0, minor = 0, length = 0;

	printf("# %s\n", when);
	is_int(MPI_Initialized(&flag), MPI_SUCCESS, "MPI_Initialized works");
	is_int(flag, initialized, "MPI_Initialized returns the right flag");
	is_int(MPI_Finalized(&flag), MPI_SUCCESS, "MPI_Finalized works");
	is_int(flag, finalized, "MPI_Finalized returns the right flag");
	is_int(MPI_Get_version(&major, &minor), MPI_SUCCESS, "MPI_Get_version works");
	is_int(major * 10 + minor, 31, "the version of MPI is 3.1");
	is_int(MPI_Get_library_version(version, &length), MPI_SUCCESS,
	       "MPI_Get_library_version works");
	ok(!strncmp(version, "Open MPI v4.1", 13), "the library is Open MPI 4.1");
	/* Open MPI counts the NUL */
	ok(length >= (int)strlen(version), "MPI_Get_library_version returns the right length");
}

/* A checkpoint and restart in place. */
static void restart(const char *when)
{
	int (*cycle)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");

	if (getenv("GPUCKPT_MPI_TEST"))
		ok(all_of(cycle, cycle() == 0), "a restart works %s", when);
}

/* MPI_T is initialised independently. */
static void tools(const char *when, int *initialized)
{
	char name[64];
	int level, rc, n = 0, length = sizeof name;

	if (!*initialized)
		is_int(MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_SUCCESS,
		       "MPI_T_init_thread");
	*initialized = 1;
	ok(MPI_T_cvar_get_num(&n) == MPI_SUCCESS, "MPI_T works %s", when);
	ok(n > 100, "MPI_T has variables %s", when);
	rc = MPI_T_cvar_get_info(0, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	is_int(rc, MPI_SUCCESS, "MPI_T describes a variable");
}

static void *other_thread(void *arg)
{
	int *flag = arg;

	MPI_Is_thread_main(flag);
	return NULL;
}

/* The checkpoint is refused at once; the other rank reaches MPI_Finalize without waiting for it. */
#define LATE_US 900000 /* several times GPUCKPT_MPI_TEST_MS */

static int finalize_late(void)
{
	struct timespec begin, end;
	int rank;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	usleep(rank ? LATE_US : 0);
	MPI_Finalize();
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (rank)
		return 0;
	ok(end.tv_sec - begin.tv_sec < 30, "no rank waits for the checkpoint");
	return tap_done();
}

int main(int argc, char **argv)
{
	char name[MPI_MAX_PROCESSOR_NAME] = "";
	int level = -1, flag = -1, length, rank = -1, tooled = 0;
	pthread_t thread;
	double t;

	if (argc > 1 && !strcmp(argv[1], "early"))
		return MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS;
	if (argc > 1 && !strcmp(argv[1], "late"))
		return finalize_late();
	always_legal("before MPI_Init", 0, 0);
	restart("between load and MPI_Init");
	tools("before MPI_Init", &tooled);
	restart("with MPI_T in use");
	tools("before MPI_Init", &tooled);
	always_legal("before MPI_Init", 0, 0);
	is_int(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level), MPI_SUCCESS,
	       "MPI_Init_thread");
	is_int(level, MPI_THREAD_FUNNELED, "MPI_Init_thread provides the requested level");
	MPI_Query_thread(&level);
	is_int(level, MPI_THREAD_FUNNELED, "MPI_Query_thread returns the level");
	restart("between MPI_Init and MPI_Finalize");
	always_legal("between", 1, 0);
	MPI_Is_thread_main(&flag);
	is_int(flag, 1, "the thread that called MPI_Init is the main thread");
	pthread_create(&thread, NULL, other_thread, &flag);
	pthread_join(thread, NULL);
	is_int(flag, 0, "another thread is not the main thread");
	is_int(MPI_Get_processor_name(name, &length), MPI_SUCCESS, "MPI_Get_processor_name");
	is_int(length, (long long)strlen(name), "the length of the processor's name");
	is_int(MPI_Pcontrol(1), MPI_SUCCESS, "MPI_Pcontrol");
	t = MPI_Wtime();
	ok(MPI_Wtime() >= t, "MPI_Wtime does not go back");
	ok(all_of(MPI_Wtick() > 0, MPI_Wtick() <= 1e-6), "MPI_Wtick is at most a microsecond");
	is_int(MPI_Finalize(), MPI_SUCCESS, "MPI_Finalize");
	for (int i = 0; i < 3; i++) {
		restart("after MPI_Finalize");
		always_legal("after MPI_Finalize", 1, 1);
		tools("after MPI_Finalize", &tooled);
	}
	return tap_done();
}
