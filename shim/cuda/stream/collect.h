/* SPDX-License-Identifier: Apache-2.0
 * Pieces of stream-ordered memory on their way back to the slabs: lists of those that no lane has. */
#ifndef GCK_CUDA_COLLECT_H
#define GCK_CUDA_COLLECT_H

#include "shim/cuda/stream/stream_cache.h"

/* With the lock of ordered.h: they are no pool's any more. */
void gck_cuda_collect_part(struct gck_cuda_ordered *list);
/* Then, without it. */
void gck_cuda_collect_return(struct gck_cuda_ordered *list);

#endif
