/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the tests: functions that the fake driver finds in the program (-export-dynamic). */
#ifndef GCK_CUDA_TEST_KERNELS_H
#define GCK_CUDA_TEST_KERNELS_H

#include <stdint.h>
#include <time.h>

#include "shim/cuda/test/kernel.h"

/* (address, value): add the value to the 8 bytes there. */
KERNEL(add, 2)
{
	(void)grid;
	*(uint64_t *)(uintptr_t)*(uint64_t *)params[0] += *(uint64_t *)params[1];
}

/* (address): wait until the host has written there. */
KERNEL(wait_flag, 1)
{
	const volatile uint64_t *flag = (void *)(uintptr_t)*(uint64_t *)params[0];
	struct timespec nap = {0, 100000};

	(void)grid;
	while (!*flag)
		nanosleep(&nap, NULL);
}

/* (address): write to the 8 bytes behind it, then wait until the host has written there. */
KERNEL(begin_and_wait, 1)
{
	((volatile uint64_t *)(uintptr_t)*(uint64_t *)params[0])[1] = 1;
	wait_flag(params, grid);
}

#endif
