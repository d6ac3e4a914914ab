/* SPDX-License-Identifier: Apache-2.0
 * Keeps the copy's threads, during a capture, from changing the lists of this object, and the lists
 * and locks of loader and libc, which the program uses too. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <time.h>

#include "shim/namespace/root/lock.h"

static uint32_t inside, held;
static __thread uint32_t depth;

static void step_out(void)
{
	if (__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST) == 0 &&
	    __atomic_load_n(&held, __ATOMIC_SEQ_CST))
		gck_ns_wake(&inside);
}

void gck_ns_enter(void)
{
	if (depth++)
		return;
	for (;;) {
		__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&held, __ATOMIC_SEQ_CST))
			return;
		step_out();
		gck_ns_wait(&held, 1, NULL);
	}
}

void gck_ns_leave(void)
{
	if (--depth == 0)
		step_out();
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int gck_ns_hold(int ms)
{
	long end = now_ms() + ms;

	__atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		uint32_t n = __atomic_load_n(&inside, __ATOMIC_SEQ_CST);
		long left = end - now_ms();
		struct timespec t = { left / 1000, left % 1000 * 1000000 };

		if (n == 0 && gck_ns_threads_settle(left) == 0)
			return 0;
		if (left <= 0)
			break;
		if (n)
			gck_ns_wait(&inside, n, &t);
	}
	gck_ns_release();
	return -1;
}

void gck_ns_release(void)
{
	__atomic_store_n(&held, 0, __ATOMIC_SEQ_CST);
	gck_ns_wake(&held);
}
