/* SPDX-License-Identifier: Apache-2.0
 * All lanes (lane.h), one for each stream that memory is freed in. With the lock of ordered.h. */
#ifndef GCK_CUDA_STREAM_CACHE_LIST_H
#define GCK_CUDA_STREAM_CACHE_LIST_H

#include "shim/cuda/stream/stream_cache.h"

extern struct gck_cuda_lane *gck_cuda_lanes; /* the first */

/* Of a stream, default streams as CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, those of the current context. NULL:
 * there is none (no such stream, one of a green context, no memory). */
struct gck_cuda_lane *gck_cuda_lane_of(CUstream stream);

/* One of all that a context is given, by whichever stream: NULL as above. */
struct gck_cuda_lane *gck_cuda_lane_of_context(CUcontext context);

/* The stream ends: from now on what it was given is known by the context alone, or by an event: `askable`, no
 * capture is under way. */
void gck_cuda_lanes_stream_ends(CUstream stream, bool askable);

/* Those that have nothing go. */
void gck_cuda_lanes_tidy(void);

#endif
