/* SPDX-License-Identifier: Apache-2.0
 * Makes a process follow the test's clock (clock.h). libev and our own code read the time by
 * clock_gettime() and wait by epoll_wait(), which this file defines. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test/support/clock.h"

#define SECOND 1000000000
#define SLICE_MS 5 /* the longest wait before the clock is read again */

#define EXPORT __attribute__((visibility("default")))

EXPORT int clock_gettime(clockid_t which, struct timespec *t);
EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
EXPORT int poll(struct pollfd *fds, nfds_t many, int timeout);

static const volatile struct test_clock *map_clock(void)
{
	static const struct test_clock machines = {.rate = 1};
	const char *path = getenv(TEST_CLOCK_ENV);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED
			    : mmap(NULL, sizeof machines, PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	return page == MAP_FAILED ? &machines : page;
}

static int64_t read_clock(clockid_t which)
{
	struct timespec t;

	syscall(SYS_clock_gettime, which, &t);
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* By how much the test's clock is ahead of the machine's. */
static int64_t ahead_ns(void)
{
	static const volatile struct test_clock *c;

	if (!c)
		c = map_clock();
	return c->ahead_ns + (read_clock(CLOCK_MONOTONIC) - c->since_ns) * (c->rate - 1);
}

int clock_gettime(clockid_t which, struct timespec *t)
{
	int64_t ns;

	if (syscall(SYS_clock_gettime, which, t))
		return -1;
	/* CLOCK_REALTIME_COARSE is the clock of files' times, which are the machine's. */
	if (which < 0 || which == CLOCK_PROCESS_CPUTIME_ID || which == CLOCK_THREAD_CPUTIME_ID ||
	    which == CLOCK_REALTIME_COARSE)
		return 0;
	ns = t->tv_nsec + ahead_ns();
	t->tv_sec += ns / SECOND;
	t->tv_nsec = ns % SECOND;
	return 0;
}

/* When a wait of so many milliseconds ends, by the test's clock. */
static int64_t deadline(int timeout)
{
	return timeout < 0 ? INT64_MAX :
			     read_clock(CLOCK_MONOTONIC) + ahead_ns() + (int64_t)timeout * 1000000;
}

static bool is_over(int64_t until)
{
	return until != INT64_MAX && read_clock(CLOCK_MONOTONIC) + ahead_ns() >= until;
}

static int slice(int timeout)
{
	return timeout >= 0 && timeout < SLICE_MS ? timeout : SLICE_MS;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	int64_t until = deadline(timeout);
	int n;

	do {
		n = epoll_pwait(fd, events, most, slice(timeout), NULL);
	} while (n == 0 && !is_over(until));
	return n;
}

int poll(struct pollfd *fds, nfds_t many, int timeout)
{
	int64_t until = deadline(timeout);
	int n;

	do {
		const struct timespec t = {.tv_nsec = slice(timeout) * 1000000L};

		n = ppoll(fds, many, &t, NULL);
	} while (n == 0 && !is_over(until));
	return n;
}
