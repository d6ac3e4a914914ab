/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/collect.h"

#include <time.h>

#include "shim/cuda/gate/capture.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_supply.h"
#include "shim/cuda/stream/ordered_memory.h"
#include "shim/cuda/stream/pool.h"
#include "shim/cuda/stream/stream_cache.h"

#define NAP_NS 50000

/* Take what all streams have passed. waits: some is left that may be passed soon. */
static struct gck_cuda_ordered *take_passed(bool *waits)
{
	struct gck_cuda_ordered *list = NULL;

	*waits = false;
	for (struct gck_cuda_stream_cache *cache = gck_cuda_stream_caches; cache;
	     cache = cache->next) {
		if (cache->n)
			list = gck_cuda_stream_cache_until(cache, gck_cuda_fence_passed(cache),
							   list);
		*waits |= cache->n && cache->fence;
	}
	return list;
}

/* Does nothing while there are captures, since a stream in a capture cannot be queried. */
static bool collect(bool *waits)
{
	struct gck_cuda_ordered *list;

	*waits = false;
	if (!gck_cuda_capture_pause())
		return false;
	gck_cuda_ordered_lock();
	atomic_store_explicit(&gck_cuda_ordered_large, false, memory_order_relaxed);
	list = take_passed(waits);
	if (*waits)
		atomic_store_explicit(&gck_cuda_ordered_large, true, memory_order_relaxed);
	gck_cuda_stream_caches_tidy();
	gck_cuda_ordered_unlist(list);
	gck_cuda_ordered_unlock();
	gck_cuda_capture_go_on();
	gck_cuda_ordered_return(list);
	return list != NULL;
}

void gck_cuda_ordered_collect(void)
{
	bool waits;

	collect(&waits);
}

static bool collect_within(int ms)
{
	int64_t end_ns = gck_cuda_now_ns() + ms * 1000000ll;
	bool some, waits;

	while (!(some = collect(&waits)) && waits && gck_cuda_now_ns() < end_ns)
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	return some;
}

bool gck_cuda_ordered_reclaim(int ms)
{
	bool some = collect_within(ms);

	gck_cuda_ordered_lock();
	gck_cuda_pools_keep_nothing();
	gck_cuda_ordered_unlock();
	gck_cuda_slabs_lock();
	some |= gck_cuda_slabs_drop_empty();
	gck_cuda_slabs_unlock();
	return some;
}

/* ---- ends ----------------------------------------------------------------------------------- */

void gck_cuda_ordered_stream_ends(CUstream stream)
{
	bool askable = gck_cuda_capture_pause();

	gck_cuda_ordered_lock();
	gck_cuda_stream_caches_stream_ends(stream, askable);
	gck_cuda_ordered_unlock();
	if (askable)
		gck_cuda_capture_go_on();
}

/* The context's events have ended with it. */
void gck_cuda_ordered_forget(CUcontext context, uint64_t newest)
{
	struct gck_cuda_ordered *list = NULL;

	gck_cuda_ordered_lock();
	for (struct gck_cuda_stream_cache *cache = gck_cuda_stream_caches; cache;
	     cache = cache->next) {
		if (cache->context != context)
			continue;
		list = gck_cuda_stream_cache_until(cache, newest, list);
		cache->event = NULL;
		cache->fence = 0;
	}
	gck_cuda_stream_caches_tidy();
	gck_cuda_ordered_unlist(list);
	gck_cuda_ordered_unlock();
	gck_cuda_ordered_return(list);
}

void gck_cuda_ordered_rest(void)
{
	struct gck_cuda_ordered *list = NULL;

	for (struct gck_cuda_stream_cache *cache = gck_cuda_stream_caches; cache;
	     cache = cache->next)
		list = gck_cuda_stream_cache_until(cache, UINT64_MAX, list);
	gck_cuda_stream_caches_tidy();
	gck_cuda_ordered_unlist(list);
	gck_cuda_ordered_return(list);
}
