/* SPDX-License-Identifier: Apache-2.0
 * Host memory that is got ready for a drain while the program runs: the first touch of a page takes longer than
 * what is then copied into it, and memory must be there before it can be pinned. */
#ifndef GCK_CUDA_PREFAULT_H
#define GCK_CUDA_PREFAULT_H

#include <stdint.h>

/* New memory, of large pages where there are such; NULL: there is none. */
void *gck_cuda_prefault_new(uint64_t size);

/* Have several threads touch it, until all of it is there or the time has come (CLOCK_MONOTONIC). It is only
 * faster afterwards: nothing is said where it cannot be done. */
void gck_cuda_prefault(void *at, uint64_t size, int64_t end_ns);

#endif
