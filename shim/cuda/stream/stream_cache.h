/* SPDX-License-Identifier: Apache-2.0
 * Freed stream-ordered memory, by the stream in whose order it was freed. That stream may reuse it
 * at once, others when the stream has passed the free (below). Call with the lock of
 * ordered_memory.h held. */
#ifndef GCK_CUDA_STREAM_CACHE_H
#define GCK_CUDA_STREAM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_ordered {
	uint64_t base, size;
	uint64_t taken;                 /* the id of its allocation on a slab (device_memory.h) */
	uint64_t requested;                 /* 0: it is freed, and in a cache */
	uint64_t id;                    /* of the allocation; of the free */
	struct gck_cuda_pool *pool;
	struct gck_cuda_ordered *next;  /* next in its bin, or in a list */
};

#define GCK_CUDA_STREAM_CACHE_BINS 144          /* four for each doubling, from 512 bytes on */

struct gck_cuda_stream_cache {
	uint64_t key;                   /* 0: its stream was destroyed */
	CUstream stream;                /* NULL: destroyed. A thread's default stream can be
					 * queried by that thread alone */
	bool apart;                     /* it does not synchronize with the legacy default stream */
	uint64_t thread;                /* of CU_STREAM_PER_THREAD: the thread's number */
	CUcontext context;
	CUdevice device;
	CUevent event;                  /* NULL: none yet */
	uint64_t fence;                 /* the last free that the event covers; 0: no event is
					 * recorded */
	uint64_t newest;                /* the id of the newest free */
	size_t n;
	struct gck_cuda_ordered *bins[GCK_CUDA_STREAM_CACHE_BINS];
	struct gck_cuda_stream_cache *next;
};

void gck_cuda_stream_cache_put(struct gck_cuda_stream_cache *cache, struct gck_cuda_ordered *block);

/* Take a block of so many bytes, or up to a quarter more, to waste little; or of any larger
 * size. NULL: there is none. */
struct gck_cuda_ordered *gck_cuda_stream_cache_take(struct gck_cuda_stream_cache *cache,
						    uint64_t size) GCK_MUST_CHECK;
struct gck_cuda_ordered *gck_cuda_stream_cache_take_any(struct gck_cuda_stream_cache *cache,
							uint64_t size) GCK_MUST_CHECK;

/* Take all that were freed up to that id, and put them before `list`. */
struct gck_cuda_ordered *gck_cuda_stream_cache_until(struct gck_cuda_stream_cache *cache,
						     uint64_t until, struct gck_cuda_ordered *list);

extern struct gck_cuda_stream_cache *gck_cuda_stream_caches; /* the first one */

/* The cache of a stream; default streams as CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, of the
 * current context. NULL: there is no such stream, it is a green context's, or there is no
 * memory. */
struct gck_cuda_stream_cache *gck_cuda_stream_cache_of(CUstream stream) GCK_MUST_CHECK;

/* The cache for all work of a context, whatever its stream. NULL as above. */
struct gck_cuda_stream_cache *gck_cuda_stream_cache_of_context(CUcontext context) GCK_MUST_CHECK;

/* A stream ends: from now on an event, or its context, tells how far it came. askable: no
 * capture is under way, so that an event can be recorded. */
void gck_cuda_stream_caches_stream_ends(CUstream stream, bool askable);

/* Free empty caches. */
void gck_cuda_stream_caches_tidy(void);

/* Fences: How far a cache's stream has come. Events are recorded when the answer is needed,
 * later than the frees that they cover. No capture may be under way (capture.h). */

/* The id of the last free that the stream has passed; 0: none is known. Queries the event, and
 * records one if there are frees that none covers. */
uint64_t gck_cuda_fence_passed(struct gck_cuda_stream_cache *cache) GCK_MUST_CHECK;

/* Record an event behind all of the stream's work. False: it failed. */
bool gck_cuda_fence_set(struct gck_cuda_stream_cache *cache);

/* Whether the event covers the cache's stream alone. */
bool gck_cuda_fence_is_of_stream(const struct gck_cuda_stream_cache *cache);

/* Make `stream`, of the same device, wait for the event, which is recorded. */
CUresult gck_cuda_fence_wait(const struct gck_cuda_stream_cache *cache, CUstream stream)
	GCK_MUST_CHECK;

#endif
