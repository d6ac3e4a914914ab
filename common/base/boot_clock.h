/* SPDX-License-Identifier: Apache-2.0
 * A clock that nobody sets, and that counts while the machine sleeps. */
#ifndef GCK_BOOT_CLOCK_H
#define GCK_BOOT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds since the machine was started. */
static inline int64_t gck_boot_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

#endif
