/* SPDX-License-Identifier: Apache-2.0
 * Pieces of stream-ordered memory on their way back to the slabs: lists of those that no cache has. */
#ifndef GCK_CUDA_COLLECT_H
#define GCK_CUDA_COLLECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

/* What the GPU is done with goes back to the slabs. */
void gck_cuda_ordered_collect(void);

/* The program has waited for the GPU: what its pools should not keep goes. */
extern _Atomic bool gck_cuda_ordered_large;
static inline void gck_cuda_ordered_waited(void)
{
	if (atomic_load_explicit(&gck_cuda_ordered_large, memory_order_relaxed))
		gck_cuda_ordered_collect();
}

/* Somebody finds no memory: true, some was given back to the driver or to the slabs. Waits for so long. */
bool gck_cuda_ordered_reclaim(int ms);

void gck_cuda_ordered_stream_ends(CUstream stream);
/* A context that is gone, as gck_cuda_memory_forget: what was freed in its streams' orders is free. */
void gck_cuda_ordered_forget(CUcontext context, uint64_t newest);

/* ---- the CUDA thread, with the GPU idle ------------------------------------------------------ */

void gck_cuda_ordered_rest(void);

#endif
