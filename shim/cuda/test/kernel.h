/* SPDX-License-Identifier: Apache-2.0
 * How a test's kernel is written: a function that the fake driver finds in the program
 * (-export-dynamic). */
#ifndef GCK_CUDA_TEST_KERNEL_H
#define GCK_CUDA_TEST_KERNEL_H

struct fake_grid;

#define SHOWN __attribute__((visibility("default")))
#define KERNEL(name, n) \
	extern const int name##_params SHOWN; \
	const int name##_params = (n); \
	void name(void **params, const struct fake_grid *grid) SHOWN; \
	void name(void **params, const struct fake_grid *grid)

#endif
