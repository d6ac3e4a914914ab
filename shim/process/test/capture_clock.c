/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/process/test/capture_clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* In the vdso most of the time; else checking that nobody else wrote its memory. */
static volatile bool reading_clock;
static int stale;
static pthread_t clock_reader;

static void read_clock(struct timespec *t, int ms)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += ms * 1000000;
	do {
		for (int i = 0; i < 1000; i++)
			clock_gettime(CLOCK_REALTIME_COARSE, t);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - end.tv_sec) * 1000000000l + now.tv_nsec < end.tv_nsec);
}

static void *clock_user(void *at)
{
	volatile struct timespec *t = at;

	prctl(PR_SET_NAME, "clock");
	while (reading_clock) {
		read_clock(at, 10);
		t->tv_nsec = -1;
		usleep(30000);
		stale += t->tv_nsec != -1;
	}
	return NULL;
}

static void use_clock(int flags)
{
	void *at = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		perror("mmap");
	reading_clock = true;
	pthread_create(&clock_reader, NULL, clock_user, at);
	usleep(1000);
}

void clock_do(void)
{
	use_clock(MAP_PRIVATE);
}

void clock_do_shared(void)
{
	use_clock(MAP_SHARED);
}

void clock_undo(void)
{
	reading_clock = false;
	pthread_join(clock_reader, NULL);
}

int clock_stale(void)
{
	return stale;
}
