/* SPDX-License-Identifier: Apache-2.0
 * What may be called before MPI_Init and after MPI_Finalize, with and without the stand-in, and
 * with GPUCKPT_MPI_TEST over restarts at each stage of life. One rank. `lifetime early`: a call
 * that may not. `lifetime late`, two ranks: one is in MPI_Finalize while a checkpoint is asked for,
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
	is_int(MPI_Initialized(&flag), MPI_SUCCESS, "MPI_Initialized may be called");
	is_int(flag, initialized, "and is right");
	is_int(MPI_Finalized(&flag), MPI_SUCCESS, "MPI_Finalized may be called");
	is_int(flag, finalized, "and is right");
	is_int(MPI_Get_version(&major, &minor), MPI_SUCCESS, "MPI_Get_version may be called");
	is_int(major * 10 + minor, 31, "MPI is 3.1");
	is_int(MPI_Get_library_version(version, &length), MPI_SUCCESS, "the library's version too");
	ok(!strncmp(version, "Open MPI v4.1", 13), "it is Open MPI 4.1");
	ok(length >= (int)strlen(version), "and its length is right"); /* Open MPI counts the NUL */
}

/* A checkpoint and restart in place. */
static void restart(const char *when)
{
	int (*cycle)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");

	if (getenv("GPUCKPT_MPI_TEST"))
		ok(all_of(cycle, cycle() == 0), "a restart %s", when);
}

/* MPI_T has a life of its own. */
static void tools(const char *when, int *initialized)
{
	char name[64];
	int level, rc, n = 0, length = sizeof name;

	if (!*initialized)
		is_int(MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_SUCCESS,
		       "MPI_T_init_thread");
	*initialized = 1;
	ok(MPI_T_cvar_get_num(&n) == MPI_SUCCESS, "MPI_T works %s", when);
	ok(n > 100, "it has variables");
	rc = MPI_T_cvar_get_info(0, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	is_int(rc, MPI_SUCCESS, "and tells of them");
}

static void *other_thread(void *arg)
{
	int *flag = arg;

	MPI_Is_thread_main(flag);
	return NULL;
}

/* The checkpoint is refused at once: the other gets to MPI_Finalize as soon as it will. */
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
	ok(end.tv_sec - begin.tv_sec < 30, "nobody waits for the checkpoint");
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
	is_int(level, MPI_THREAD_FUNNELED, "gives the level that was asked for");
	MPI_Query_thread(&level);
	is_int(level, MPI_THREAD_FUNNELED, "and says so again");
	restart("between MPI_Init and MPI_Finalize");
	always_legal("between", 1, 0);
	MPI_Is_thread_main(&flag);
	is_int(flag, 1, "the thread that called MPI_Init is the main one");
	pthread_create(&thread, NULL, other_thread, &flag);
	pthread_join(thread, NULL);
	is_int(flag, 0, "another is not");
	is_int(MPI_Get_processor_name(name, &length), MPI_SUCCESS, "MPI_Get_processor_name");
	is_int(length, (long long)strlen(name), "and its length");
	is_int(MPI_Pcontrol(1), MPI_SUCCESS, "MPI_Pcontrol");
	t = MPI_Wtime();
	ok(MPI_Wtime() >= t, "MPI_Wtime goes on");
	ok(all_of(MPI_Wtick() > 0, MPI_Wtick() <= 1e-6), "MPI_Wtick is a clock's");
	is_int(MPI_Finalize(), MPI_SUCCESS, "MPI_Finalize");
	for (int i = 0; i < 3; i++) {
		restart("after MPI_Finalize");
		always_legal("after MPI_Finalize", 1, 1);
		tools("after MPI_Finalize", &tooled);
	}
	return tap_done();
}
