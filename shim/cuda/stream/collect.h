/* SPDX-License-Identifier: Apache-2.0
 * Returns freed stream-ordered memory to the slabs. */
#ifndef GCK_CUDA_COLLECT_H
#define GCK_CUDA_COLLECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

/* Return what the GPU has finished with. */
void gck_cuda_ordered_collect(void);

/* Call after the program waited for the GPU: returns what its pools should not keep. */
extern _Atomic bool gck_cuda_ordered_large;
static inline void gck_cuda_ordered_waited(void)
{
	if (atomic_load_explicit(&gck_cuda_ordered_large, memory_order_relaxed))
		gck_cuda_ordered_collect();
}

/* The program lacks memory: returns what it can to the slabs and to the driver, and waits for up
 * to ms. True: there was some. */
bool gck_cuda_ordered_reclaim(int ms);

void gck_cuda_ordered_stream_ends(CUstream stream);
/* A context has ended (see gck_cuda_memory_forget): what was freed in the order of its streams
 * is free. */
void gck_cuda_ordered_forget(CUcontext context, uint64_t newest);

/* ---- the CUDA thread, with the GPU idle: return everything ---------------------------------- */

void gck_cuda_ordered_rest(void);

#endif
