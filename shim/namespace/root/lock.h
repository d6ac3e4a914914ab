/* SPDX-License-Identifier: Apache-2.0
 * A lock of one word, and waiting on a word. Without libc, so that it works before libc does. */
#ifndef GCK_NS_ROOT_LOCK_H
#define GCK_NS_ROOT_LOCK_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

static inline long gck_ns_wait(uint32_t *word, uint32_t while_it_is, const struct timespec *timeout)
{
	return gck_raw(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, timeout);
}

static inline void gck_ns_wake(uint32_t *word)
{
	gck_raw(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

struct gck_ns_lock {
	uint32_t word; /* 0: free, 1: taken, 2: taken and others wait */
};

static inline void gck_ns_lock(struct gck_ns_lock *lock)
{
	uint32_t was = 0;

	if (__atomic_compare_exchange_n(&lock->word, &was, 1, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE))
		gck_ns_wait(&lock->word, 2, NULL);
}

static inline void gck_ns_unlock(struct gck_ns_lock *lock)
{
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		gck_raw(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1);
}

#endif
