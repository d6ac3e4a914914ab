/* SPDX-License-Identifier: Apache-2.0
 * A clock of the test's own for the agent and gpuckptd, so that time-outs need not be waited out. A
 * process follows it if fake_clock.c is linked in or preloaded (clock_gettime(), epoll_wait()); its
 * children follow it as well. */
#ifndef GCK_TEST_CLOCK_H
#define GCK_TEST_CLOCK_H

#include <stdint.h>

#define TEST_CLOCK_ENV "GCK_TEST_CLOCK" /* the file that holds a struct test_clock */

/* Now is the machine's time, plus ahead_ns, plus rate - 1 times what has gone by since since_ns
 * (CLOCK_MONOTONIC). */
struct test_clock {
	int64_t since_ns, ahead_ns, rate;
};

/* Create the clock's file, which processes started from here on follow; it runs as the machine's.
 * Returns 0, or -1 with errno. */
int test_clock_open(const char *path);

/* Let it run `rate` times as fast as the machine's from now on. */
void test_clock_rate(int rate);

/* Set it ahead; waits of those who follow it end. */
void test_clock_advance(double seconds);

#endif
