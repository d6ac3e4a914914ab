/* SPDX-License-Identifier: Apache-2.0
 * How far a cache's stream has come. Events are recorded when the answer is needed, later than the
 * frees that they cover. No capture may be under way (capture.h). */
#ifndef GCK_CUDA_FENCE_H
#define GCK_CUDA_FENCE_H

#include <stdbool.h>

#include "shim/cuda/stream/stream_cache.h"

/* The id of the last free that the stream has passed; 0: none is known. Queries the event, and
 * records one if there are frees that none covers. */
uint64_t gck_cuda_fence_passed(struct gck_cuda_stream_cache *cache);

/* Record an event behind all of the stream's work. False: it failed. */
bool gck_cuda_fence_set(struct gck_cuda_stream_cache *cache);

/* Whether the event covers the cache's stream alone. */
bool gck_cuda_fence_is_of_stream(const struct gck_cuda_stream_cache *cache);

/* Make `stream`, of the same device, wait for the event, which is recorded. */
CUresult gck_cuda_fence_wait(const struct gck_cuda_stream_cache *cache, CUstream stream);

void gck_cuda_fence_end(struct gck_cuda_stream_cache *cache);

#endif
