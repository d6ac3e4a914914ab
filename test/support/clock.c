/* SPDX-License-Identifier: Apache-2.0
 * The test's side of its clock. */
#include "test/support/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000

static struct test_clock *clock_page;

/* The machine's time, also where this process follows the test's clock. */
static int64_t machine_ns(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

int test_clock_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	void *page = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof *clock_page) == 0)
		page = mmap(NULL, sizeof *clock_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (page == MAP_FAILED)
		return -1;
	clock_page = page;
	*clock_page = (struct test_clock){.since_ns = machine_ns(), .rate = 1};
	return setenv(TEST_CLOCK_ENV, path, 1);
}

void test_clock_rate(int rate)
{
	int64_t now = machine_ns();

	clock_page->ahead_ns += (now - clock_page->since_ns) * (clock_page->rate - 1);
	clock_page->since_ns = now;
	clock_page->rate = rate;
}

void test_clock_advance(double seconds)
{
	clock_page->ahead_ns += (int64_t)(seconds * SECOND);
}
