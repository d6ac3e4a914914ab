/* SPDX-License-Identifier: Apache-2.0
 * Host memory prepared for a drain while the program runs: the first touch of a page takes longer
 * than the copy into it, and memory must exist before it can be pinned. */
#ifndef GCK_CUDA_PREFAULT_H
#define GCK_CUDA_PREFAULT_H

#include <stdint.h>

#include "common/base/error.h"

/* New memory, of large pages where possible; NULL: there is none. */
void *gck_cuda_prefault_new(uint64_t size) GCK_MUST_CHECK;

/* Touch it by several threads, until all of it exists or end_ns (CLOCK_MONOTONIC) has come. A
 * failure is not reported: it costs speed only. */
void gck_cuda_prefault(void *at, uint64_t size, int64_t end_ns);

#endif
