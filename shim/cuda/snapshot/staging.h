/* SPDX-License-Identifier: Apache-2.0
 * Copies between a device and ordinary host memory while the program waits at the gate, by several
 * threads, each with pinned memory as a stage. (The driver alone, from one thread, moves 1.5
 * GB/s to new memory.) */
#ifndef GCK_CUDA_STAGING_H
#define GCK_CUDA_STAGING_H

#include <stdbool.h>

#include "common/base/error.h"
#include "shim/cuda/snapshot/snapshot.h"

/* Copy what the snapshot's table has of the share's device in host memory, out or, in a restored
 * process, back. By end_ns (0: no limit). */
int gck_cuda_stage(const struct gck_cuda_share *share, bool out, int64_t end_ns,
		   struct gck_error *err) GCK_MUST_CHECK;

/* Prepare pinned memory for copies of so many devices while the program runs; and free it, when
 * no copy is under way. */
void gck_cuda_stage_expect(size_t devices, int64_t end_ns);
void gck_cuda_stage_end(void);

#endif
