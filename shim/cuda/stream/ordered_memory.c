/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/ordered_memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/gate/capture.h"
#include "shim/cuda/real.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/pool.h"
#include "shim/cuda/stream/stream_cache.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_handle_map blocks; /* base: struct gck_cuda_ordered *, allocated or freed */

_Atomic bool gck_cuda_ordered_large;

void gck_cuda_ordered_lock(void)
{
	pthread_mutex_lock(&lock);
}

void gck_cuda_ordered_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static struct gck_cuda_ordered *block_at(uint64_t base)
{
	const uint64_t *place = gck_cuda_handle_map_get(&blocks, base);

	return place ? (struct gck_cuda_ordered *)(uintptr_t)*place : NULL;
}

/* ---- blocks come and go --------------------------------------------------------------------- */

static struct gck_cuda_ordered *block_new(const struct gck_cuda_allocation *a,
					  struct gck_cuda_pool *pool)
{
	struct gck_cuda_ordered *block = malloc(sizeof *block);
	uint64_t *place = block ? gck_cuda_handle_map_put(&blocks, a->base) : NULL;

	if (!place) {
		free(block);
		return NULL;
	}
	*block = (struct gck_cuda_ordered){
		.base = a->base, .size = a->size, .taken = a->id, .pool = pool};
	*place = (uint64_t)(uintptr_t)block;
	gck_cuda_pool_gets(pool, block->size);
	return block;
}

void gck_cuda_ordered_unlist(struct gck_cuda_ordered *list)
{
	for (struct gck_cuda_ordered *p = list; p; p = p->next) {
		gck_cuda_handle_map_drop(&blocks, p->base);
		gck_cuda_pool_gives(p->pool, p->size);
	}
}

void gck_cuda_ordered_return(struct gck_cuda_ordered *list)
{
	struct gck_cuda_ordered *next;

	for (struct gck_cuda_ordered *p = list; p; p = next) {
		next = p->next;
		gck_cuda_memory_give(
			&(struct gck_cuda_allocation){.base = p->base, .id = p->taken});
		free(p);
	}
}

/* ---- taking --------------------------------------------------------------------------------- */

static void begin(struct gck_cuda_ordered *block, struct gck_cuda_pool *pool, uint64_t bytes)
{
	if (block->pool != pool) {
		gck_cuda_pool_gives(block->pool, block->size);
		gck_cuda_pool_gets(pool, block->size);
		block->pool = pool;
	}
	block->requested = bytes;
	block->id = gck_cuda_memory_id();
	gck_cuda_pool_allocates(pool, bytes);
}

/* Without the lock. Collect what other streams have freed before the slabs grow. */
static CUresult take_from_slabs(const struct gck_cuda_pool *pool, bool opportunistic, uint64_t size,
				struct gck_cuda_allocation *a)
{
	CUresult rc = gck_cuda_memory_take_on(pool->device, NULL, size, false, a);

	if (rc == CUDA_ERROR_OUT_OF_MEMORY && opportunistic) {
		gck_cuda_ordered_collect();
		rc = gck_cuda_memory_take_on(pool->device, NULL, size, false, a);
	}
	return rc == CUDA_ERROR_OUT_OF_MEMORY
		       ? gck_cuda_memory_take_on(pool->device, NULL, size, true, a)
		       : rc;
}

static CUresult make(struct gck_cuda_pool *pool, bool opportunistic, uint64_t size,
		     struct gck_cuda_ordered **block)
{
	struct gck_cuda_allocation a;
	CUresult rc = take_from_slabs(pool, opportunistic, size, &a);

	if (rc)
		return rc;
	gck_cuda_ordered_lock();
	*block = block_new(&a, pool);
	gck_cuda_ordered_unlock();
	if (*block)
		return CUDA_SUCCESS;
	gck_cuda_memory_give(&a);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Take what another stream has freed, and make this one wait for it. */
static CUresult borrow(CUdevice device, CUstream stream, uint64_t size,
		       struct gck_cuda_ordered **block)
{
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!gck_cuda_capture_pause())
		return rc;
	gck_cuda_ordered_lock();
	for (struct gck_cuda_stream_cache *cache = gck_cuda_stream_caches; rc && cache;
	     cache = cache->next) {
		if (cache->device != device || !cache->n || !gck_cuda_fence_is_of_stream(cache))
			continue;
		*block = gck_cuda_stream_cache_take_any(cache, size);
		if (!*block)
			continue;
		rc = gck_cuda_fence_set(cache) ? gck_cuda_fence_wait(cache, stream)
					       : CUDA_ERROR_OUT_OF_MEMORY;
		if (rc)
			gck_cuda_stream_cache_put(cache, *block);
	}
	gck_cuda_ordered_unlock();
	gck_cuda_capture_go_on();
	return rc;
}

struct wish {
	CUcontext context; /* the stream's */
	CUstream stream;
	struct gck_cuda_pool *pool;
	bool opportunistic, internal;
	uint64_t size;
};

static CUresult make_or_borrow(const struct wish *w, struct gck_cuda_ordered **block)
{
	CUresult rc = make(w->pool, w->opportunistic, w->size, block);

	return rc == CUDA_ERROR_OUT_OF_MEMORY && w->internal
		       ? borrow(w->pool->device, w->stream, w->size, block)
		       : rc;
}

static CUresult fetch(const struct wish *w, struct gck_cuda_ordered **block)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext context;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(w->context);

	if (rc)
		return rc;
	/* captures of others are not harmed */
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	GCK_CUDA_TRY(rc, make_or_borrow(w, block));
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc;
}

CUresult gck_cuda_ordered_take(CUmemoryPool handle, CUstream stream, uint64_t bytes,
			       CUdeviceptr *address)
{
	struct wish w = {.stream = stream, .size = gck_cuda_memory_round(bytes)};
	struct gck_cuda_ordered *block;
	CUresult rc = CUDA_SUCCESS;
	struct gck_cuda_stream_cache *cache;

	gck_cuda_ordered_lock();
	cache = gck_cuda_stream_cache_of(stream);
	w.pool = !cache	  ? NULL
		 : handle ? gck_cuda_pool_of(handle)
			  : gck_cuda_pool_current(cache->device);
	if (!w.pool || w.pool->device != cache->device || w.size < bytes) {
		gck_cuda_ordered_unlock();
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	gck_cuda_pool_use(w.pool);
	block = gck_cuda_stream_cache_take(cache, w.size);
	if (!block) {
		w.context = cache->context; /* the cache may be freed */
		w.opportunistic = w.pool->opportunistic;
		w.internal = w.pool->internal;
		gck_cuda_ordered_unlock();
		rc = fetch(&w, &block);
		gck_cuda_ordered_lock();
	}
	if (rc == CUDA_SUCCESS) {
		begin(block, w.pool, bytes);
		*address = block->base;
	}
	gck_cuda_pool_unuse(w.pool);
	gck_cuda_ordered_unlock();
	return rc;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void end(struct gck_cuda_ordered *block)
{
	gck_cuda_pool_frees(block->pool, block->requested);
	block->requested = 0;
	block->id = gck_cuda_memory_id();
}

CUresult gck_cuda_ordered_free(CUdeviceptr address, CUstream stream)
{
	struct gck_cuda_ordered *block;
	struct gck_cuda_stream_cache *cache;
	CUresult rc = CUDA_SUCCESS;

	gck_cuda_ordered_lock();
	block = block_at(address);
	cache = block && block->requested ? gck_cuda_stream_cache_of(stream) : NULL;
	if (!block || (block->requested && (!cache || cache->device != block->pool->device))) {
		rc = CUDA_ERROR_NOT_FOUND;
	} else if (!block->requested) {
		rc = CUDA_ERROR_INVALID_VALUE;
	} else {
		end(block);
		gck_cuda_stream_cache_put(cache, block);
		if (gck_cuda_pool_is_large(block->pool))
			atomic_store_explicit(&gck_cuda_ordered_large, true, memory_order_relaxed);
	}
	gck_cuda_ordered_unlock();
	return rc;
}

CUresult gck_cuda_ordered_give(const struct gck_cuda_allocation *a)
{
	struct gck_cuda_ordered *block;

	gck_cuda_ordered_lock();
	block = block_at(a->base);
	if (block && (!block->requested || block->id != a->id))
		block = NULL;
	if (block) {
		end(block);
		block->next = NULL;
		gck_cuda_ordered_unlist(block);
	}
	gck_cuda_ordered_unlock();
	gck_cuda_ordered_return(block);
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* It becomes freed memory of a pool that the program cannot see. */
CUresult gck_cuda_ordered_give_later(const struct gck_cuda_allocation *a, CUcontext context)
{
	static struct gck_cuda_pool none = {.destroyed = true, .uses = 1};
	struct gck_cuda_ordered *block = NULL;
	struct gck_cuda_stream_cache *cache;
	bool freed;

	gck_cuda_ordered_lock();
	cache = gck_cuda_stream_cache_of_context(context);
	freed = block_at(a->base);
	if (cache && !freed)
		block = block_new(a, &none);
	if (block && gck_cuda_memory_disown(a)) {
		block->id = gck_cuda_memory_id();
		gck_cuda_stream_cache_put(cache, block);
		atomic_store_explicit(&gck_cuda_ordered_large, true, memory_order_relaxed);
	} else if (block) {
		freed = true;
		gck_cuda_ordered_unlist(block);
		free(block);
	}
	gck_cuda_ordered_unlock();
	return freed ? CUDA_ERROR_INVALID_VALUE : block ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

bool gck_cuda_ordered_look(uint64_t address, struct gck_cuda_allocation *a)
{
	const struct gck_cuda_ordered *block;
	bool there = true;

	gck_cuda_ordered_lock();
	block = block_at(a->base);
	if (block) {
		there = address - block->base < block->requested;
		a->size = block->requested;
		a->id = block->id;
		a->pool = block->pool->handle;
	}
	gck_cuda_ordered_unlock();
	return there;
}

void gck_cuda_ordered_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
