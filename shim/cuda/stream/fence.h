/* SPDX-License-Identifier: Apache-2.0
 * How far a cache's stream has come. Events are recorded when somebody wants to know, later than the free:
 * what was freed before is behind them. No capture may be under way (capture.h). */
#ifndef GCK_CUDA_FENCE_H
#define GCK_CUDA_FENCE_H

#include <stdbool.h>

#include "shim/cuda/stream/stream_cache.h"

/* Until which free (its id) the stream has come, 0: not that anybody knew. Asks, and records an event if
 * there is something that no event is behind. */
uint64_t gck_cuda_fence_passed(struct gck_cuda_stream_cache *cache);

/* What was given to the stream so far is behind an event; false: that cannot be. */
bool gck_cuda_fence_set(struct gck_cuda_stream_cache *cache);

/* Is that an event of the cache's stream alone? */
bool gck_cuda_fence_is_of_stream(const struct gck_cuda_stream_cache *cache);

/* With one set: `stream`, of the same device, waits for it. */
CUresult gck_cuda_fence_wait(const struct gck_cuda_stream_cache *cache, CUstream stream);

void gck_cuda_fence_end(struct gck_cuda_stream_cache *cache);

#endif
