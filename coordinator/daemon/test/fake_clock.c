/* SPDX-License-Identifier: Apache-2.0
 * A clock that a test advances, linked into the tests' gpuckptd. The file GCK_TEST_CLOCK holds the
 * nanoseconds, an int64_t, by which both clocks of the daemon are ahead of the machine's. libev and our own
 * code read the time by clock_gettime(), which this file defines. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static const volatile int64_t *map_ahead(void)
{
	static const int64_t none;
	const char *path = getenv("GCK_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	return page == MAP_FAILED ? &none : page;
}

int clock_gettime(clockid_t which, struct timespec *t)
{
	static const volatile int64_t *ahead;
	int64_t ns;

	if (syscall(SYS_clock_gettime, which, t))
		return -1;
	if (!ahead)
		ahead = map_ahead();
	if (which != CLOCK_REALTIME && which != CLOCK_MONOTONIC)
		return 0;
	ns = t->tv_nsec + *ahead;
	t->tv_sec += ns / SECOND;
	t->tv_nsec = ns % SECOND;
	return 0;
}
