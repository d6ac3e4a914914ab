/* SPDX-License-Identifier: Apache-2.0
 * The words with which programs fill device memory, so that they can check it later. */
#ifndef GCK_TEST_GPU_WORDS_H
#define GCK_TEST_GPU_WORDS_H

#include <stddef.h>
#include <stdint.h>

static __device__ uint64_t word(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

/* n words from number `first` on. */
static __global__ void fill(uint64_t *p, uint64_t first, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] = word(first + i);
}

#endif
