/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the tests: functions that the fake driver finds in the program (-export-dynamic). */
#ifndef GCK_CUDA_TEST_KERNELS_H
#define GCK_CUDA_TEST_KERNELS_H

#include <stdint.h>
#include <time.h>

struct fake_grid;

#define SHOWN __attribute__((visibility("default")))
#define KERNEL(name, n) \
	extern const int name##_params SHOWN; \
	const int name##_params = (n); \
	void name(void **params, const struct fake_grid *grid) SHOWN; \
	void name(void **params, const struct fake_grid *grid)

/* (address, value): add the value to the 8 bytes there. */
KERNEL(add, 2)
{
	(void)grid;
	*(uint64_t *)(uintptr_t)*(uint64_t *)params[0] += *(uint64_t *)params[1];
}

/* (address): until the host has written there. */
KERNEL(wait_flag, 1)
{
	const volatile uint64_t *flag = (void *)(uintptr_t)*(uint64_t *)params[0];
	struct timespec nap = {0, 100000};

	(void)grid;
	while (!*flag)
		nanosleep(&nap, NULL);
}

#endif
