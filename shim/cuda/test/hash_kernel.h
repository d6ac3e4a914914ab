/* SPDX-License-Identifier: Apache-2.0
 * hash.cu's kernel as the fake driver runs it: for programs whose rank is to be hashed. */
#ifndef GCK_CUDA_TEST_HASH_KERNEL_H
#define GCK_CUDA_TEST_HASH_KERNEL_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shim/cuda/snapshot/hash.h"
#include "shim/cuda/test/kernels.h"

/* (address, size, out) */
KERNEL(gck_hash_kernel, 3)
{
	uint64_t at = *(uint64_t *)params[0], end = at + *(uint64_t *)params[1], next;
	uint64_t *out = (void *)(uintptr_t)*(uint64_t *)params[2];

	(void)grid;
	for (; at < end; at = next, out += 2) {
		XXH128_hash_t h;

		next = (at / GCK_CUDA_HASH_CHUNK + 1) * GCK_CUDA_HASH_CHUNK;
		next = next < end ? next : end;
		h = XXH3_128bits((void *)(uintptr_t)at, next - at);
		out[0] = h.high64;
		out[1] = h.low64;
	}
}

#endif
