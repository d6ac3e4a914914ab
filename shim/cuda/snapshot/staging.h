/* SPDX-License-Identifier: Apache-2.0
 * Copies between a device and ordinary memory of the host, while the program stands at the gate: by several
 * threads, each with pinned memory of its own on the way. (The driver alone, from one thread, moves
 * 1.5 GB/s to memory that is new.) */
#ifndef GCK_CUDA_STAGING_H
#define GCK_CUDA_STAGING_H

#include <stdbool.h>

#include "shim/cuda/snapshot/snapshot.h"

/* What the snapshot's table has of the share's device in host memory, out to there or, in a restored process,
 * back. Not beyond end_ns (0: no limit). */
int gck_cuda_stage(const struct gck_cuda_share *share, bool out, int64_t end_ns, struct gck_error *err);

/* The program runs, and copies of so many devices will come: memory for them; and it goes, none is under way. */
void gck_cuda_stage_expect(size_t devices, int64_t end_ns);
void gck_cuda_stage_end(void);

#endif
