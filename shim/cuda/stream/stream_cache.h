/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory: pieces of slabs in the hands of pools, and caches: what was freed in the order of a
 * stream, which the stream may have again at once, and all others when it has come so far (fence.h).
 * Knows nothing of the driver, and has no locks. */
#ifndef GCK_CUDA_STREAM_CACHE_H
#define GCK_CUDA_STREAM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_ordered {
	uint64_t base, size;
	uint64_t taken;                 /* its id where it was taken (memory.h) */
	uint64_t asked;                 /* 0: it is freed, and in a cache */
	uint64_t id;                    /* of the allocation; of the free */
	struct gck_cuda_pool *pool;
	struct gck_cuda_ordered *next;  /* in its bin, or in a list */
};

#define GCK_CUDA_STREAM_CACHE_BINS 144          /* four for each doubling, from 512 bytes on */

struct gck_cuda_stream_cache {
	uint64_t key;                   /* 0: its stream is gone */
	CUstream stream;                /* NULL: gone. One of a thread's own can only be asked by the thread */
	bool apart;                     /* it does not wait for the legacy default stream, nor that one for it */
	uint64_t thread;                /* then: whose it is */
	CUcontext context;
	CUdevice device;
	CUevent event;                  /* NULL: none yet */
	uint64_t fence;                 /* what was freed until then is free when the event is reached; 0: none */
	uint64_t newest;                /* the newest free */
	size_t n;
	struct gck_cuda_ordered *bins[GCK_CUDA_STREAM_CACHE_BINS];
	struct gck_cuda_stream_cache *next;
};

void gck_cuda_stream_cache_put(struct gck_cuda_stream_cache *cache, struct gck_cuda_ordered *piece);

/* One of so many bytes or, to waste little, up to a quarter more; of any size from that on. NULL: none. */
struct gck_cuda_ordered *gck_cuda_stream_cache_take(struct gck_cuda_stream_cache *cache, uint64_t size);
struct gck_cuda_ordered *gck_cuda_stream_cache_take_any(struct gck_cuda_stream_cache *cache, uint64_t size);

/* All that were freed until then, put before `list`. */
struct gck_cuda_ordered *gck_cuda_stream_cache_until(struct gck_cuda_stream_cache *cache, uint64_t until,
					     struct gck_cuda_ordered *list);

extern struct gck_cuda_stream_cache *gck_cuda_stream_caches; /* the first */

/* Of a stream, default streams as CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, those of the current context. NULL:
 * there is none (no such stream, one of a green context, no memory). */
struct gck_cuda_stream_cache *gck_cuda_stream_cache_of(CUstream stream);

/* One of all that a context is given, by whichever stream: NULL as above. */
struct gck_cuda_stream_cache *gck_cuda_stream_cache_of_context(CUcontext context);

/* The stream ends: from now on what it was given is known by the context alone, or by an event: `askable`, no
 * capture is under way. */
void gck_cuda_stream_caches_stream_ends(CUstream stream, bool askable);

/* Those that have nothing go. */
void gck_cuda_stream_caches_tidy(void);

#endif
