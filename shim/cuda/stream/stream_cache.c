/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/stream_cache.h"

#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/real.h"

/* ---- one ------------------------------------------------------------------------------------ */

#define LEAST_BITS 9
#define LOOKS 16 /* at blocks of a bin, so that no call takes long */

static size_t bin_of(uint64_t size)
{
	unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1 << LEAST_BITS);
	size_t bin = (bits - LEAST_BITS) * 4 + (size >> (bits - 2) & 3);

	return bin < GCK_CUDA_STREAM_CACHE_BINS ? bin : GCK_CUDA_STREAM_CACHE_BINS - 1;
}

void gck_cuda_stream_cache_put(struct gck_cuda_stream_cache *cache, struct gck_cuda_ordered *block)
{
	struct gck_cuda_ordered **bin = &cache->bins[bin_of(block->size)];

	block->next = *bin;
	*bin = block;
	if (block->id > cache->newest)
		cache->newest = block->id;
	cache->n++;
}

static struct gck_cuda_ordered *unlink_at(struct gck_cuda_stream_cache *cache,
					  struct gck_cuda_ordered **at)
{
	struct gck_cuda_ordered *block = *at;

	if (block) {
		*at = block->next;
		cache->n--;
	}
	return block;
}

/* The smallest that is large enough, among the first ones of a bin. */
static struct gck_cuda_ordered **fit(struct gck_cuda_ordered **bin, uint64_t size, uint64_t most)
{
	struct gck_cuda_ordered **found = NULL;

	for (int i = 0; i < LOOKS && *bin; i++, bin = &(*bin)->next) {
		if ((*bin)->size == size)
			return bin;
		if ((*bin)->size > size && (*bin)->size <= most &&
		    (!found || (*bin)->size < (*found)->size))
			found = bin;
	}
	return found;
}

static struct gck_cuda_ordered *take(struct gck_cuda_stream_cache *cache, uint64_t size,
				     uint64_t most)
{
	struct gck_cuda_ordered **at = NULL;

	for (size_t bin = bin_of(size); !at && cache->n && bin <= bin_of(most); bin++)
		at = fit(&cache->bins[bin], size, most);
	return at ? unlink_at(cache, at) : NULL;
}

struct gck_cuda_ordered *gck_cuda_stream_cache_take(struct gck_cuda_stream_cache *cache,
						    uint64_t size)
{
	return take(cache, size, size + size / 4);
}

struct gck_cuda_ordered *gck_cuda_stream_cache_take_any(struct gck_cuda_stream_cache *cache,
							uint64_t size)
{
	return take(cache, size, UINT64_MAX);
}

struct gck_cuda_ordered *gck_cuda_stream_cache_until(struct gck_cuda_stream_cache *cache,
						     uint64_t until, struct gck_cuda_ordered *list)
{
	for (size_t bin = 0; cache->n && until && bin < GCK_CUDA_STREAM_CACHE_BINS; bin++) {
		struct gck_cuda_ordered **at = &cache->bins[bin];

		while (*at) {
			struct gck_cuda_ordered *block = *at;

			if (block->id > until) {
				at = &block->next;
			} else {
				unlink_at(cache, at);
				block->next = list;
				list = block;
			}
		}
	}
	return list;
}

/* ---- how far a stream has come -------------------------------------------------------------- */

#define QUERIES 16 /* queries of an event just recorded: an idle stream passes it at once */

bool gck_cuda_fence_is_of_stream(const struct gck_cuda_stream_cache *cache)
{
	return cache->stream && cache->stream != CU_STREAM_PER_THREAD &&
	       cache->stream != CU_STREAM_LEGACY;
}

/* Record an event of all the context's work for the legacy default stream, where an event would
 * make other streams wait, for a thread's own, which is another stream in each thread, and for
 * destroyed streams. */
static CUresult record(struct gck_cuda_stream_cache *cache)
{
	CUresult rc = cache->event
			      ? CUDA_SUCCESS
			      : gck_cuda_real.cuEventCreate(&cache->event, CU_EVENT_DISABLE_TIMING);

	if (rc)
		return rc;
	if (gck_cuda_fence_is_of_stream(cache))
		return gck_cuda_real.cuEventRecord(cache->event, cache->stream);
	return gck_cuda_real.cuCtxRecordEvent(cache->context, cache->event);
}

bool gck_cuda_fence_set(struct gck_cuda_stream_cache *cache)
{
	uint64_t now = gck_cuda_memory_id();
	CUcontext context;
	CUresult rc;

	if (gck_cuda_real.cuCtxPushCurrent_v2(cache->context))
		return false;
	rc = record(cache);
	if (rc == CUDA_SUCCESS)
		cache->fence = now;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc == CUDA_SUCCESS;
}

/* With the context current. */
static uint64_t reached(struct gck_cuda_stream_cache *cache, int looks)
{
	uint64_t passed = cache->fence;
	CUresult rc = passed ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;

	while (rc == CUDA_ERROR_NOT_READY && looks-- > 0)
		rc = gck_cuda_real.cuEventQuery(cache->event);
	if (rc)
		return 0;
	cache->fence = 0;
	return passed;
}

/* An idle stream has passed all its frees, unless it synchronizes with the legacy default
 * stream: what it waits for there may be under way, and it would wait only when it is given more
 * work. */
static bool is_idle(const struct gck_cuda_stream_cache *cache)
{
	return cache->stream && cache->apart &&
	       gck_cuda_real.cuStreamQuery(cache->stream) == CUDA_SUCCESS;
}

uint64_t gck_cuda_fence_passed(struct gck_cuda_stream_cache *cache)
{
	CUcontext context;
	uint64_t passed;

	if (gck_cuda_real.cuCtxPushCurrent_v2(cache->context))
		return 0;
	passed = reached(cache, 1);
	if (cache->newest > passed && is_idle(cache))
		passed = cache->newest;
	else if (cache->newest > passed && !cache->fence && gck_cuda_fence_set(cache))
		passed = reached(cache, QUERIES) ?: passed;
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return passed;
}

CUresult gck_cuda_fence_wait(const struct gck_cuda_stream_cache *cache, CUstream stream)
{
	return gck_cuda_real.cuStreamWaitEvent(stream, cache->event, 0);
}

static void fence_end(struct gck_cuda_stream_cache *cache)
{
	if (cache->event)
		gck_cuda_real.cuEventDestroy_v2(cache->event);
	cache->event = NULL;
	cache->fence = 0;
}

/* ---- all caches ----------------------------------------------------------------------------- */

struct gck_cuda_stream_cache *gck_cuda_stream_caches;

static struct gck_cuda_handle_map by_key;

/* ---- which stream --------------------------------------------------------------------------- */

/* Numbers of threads that have ended are not used again. */
static uint64_t thread_number(void)
{
	static __thread uint64_t number __attribute__((tls_model("initial-exec")));
	static uint64_t last;

	if (!number)
		number = ++last;
	return number;
}

/* Handles are addresses of structures. Streams with the same key are told apart by the cache's
 * fields. */
static uint64_t key_of(CUstream stream, CUcontext context, uint64_t thread)
{
	if (!thread && stream != CU_STREAM_LEGACY)
		return (uint64_t)(uintptr_t)stream;
	return (uint64_t)(uintptr_t)context ^ thread << 48 ^ (thread ? 3 : 1);
}

/* Green contexts' streams have no cache: the end of such a context is not seen here. */
static bool is_green(CUstream stream)
{
	CUgreenCtx green = NULL;

	return gck_cuda_has((void *)gck_cuda_real.cuStreamGetGreenCtx) &&
	       gck_cuda_real.cuStreamGetGreenCtx(stream, &green) == CUDA_SUCCESS && green;
}

/* Fill in context, device and `apart`. Drivers that cannot record an event of a context have no
 * checkpoints either. */
static bool ask(struct gck_cuda_stream_cache *cache)
{
	unsigned int flags = 0;

	if (!gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent) || is_green(cache->stream))
		return false;
	if (cache->context) /* a default stream */
		return gck_cuda_real.cuCtxGetDevice(&cache->device) == CUDA_SUCCESS;
	if (gck_cuda_real.cuStreamGetCtx(cache->stream, &cache->context) ||
	    gck_cuda_device_of(cache->context, &cache->device) ||
	    gck_cuda_real.cuStreamGetFlags(cache->stream, &flags))
		return false;
	cache->apart = flags & CU_STREAM_NON_BLOCKING;
	return true;
}

static struct gck_cuda_stream_cache *make(const struct gck_cuda_stream_cache *what)
{
	struct gck_cuda_stream_cache *cache = malloc(sizeof *cache);
	uint64_t *place;

	if (!cache)
		return NULL;
	*cache = *what;
	place = ask(cache) ? gck_cuda_handle_map_put(&by_key, cache->key) : NULL;
	if (!place) {
		free(cache);
		return NULL;
	}
	*place = (uint64_t)(uintptr_t)cache;
	cache->next = gck_cuda_stream_caches;
	gck_cuda_stream_caches = cache;
	return cache;
}

struct gck_cuda_stream_cache *gck_cuda_stream_cache_of(CUstream stream)
{
	struct gck_cuda_stream_cache what = {.stream = stream}, *cache;
	const uint64_t *place;

	if (stream == CU_STREAM_PER_THREAD)
		what.thread = thread_number();
	if ((stream == CU_STREAM_PER_THREAD || stream == CU_STREAM_LEGACY) &&
	    (gck_cuda_real.cuCtxGetCurrent(&what.context) || !what.context))
		return NULL;
	what.key = key_of(stream, what.context, what.thread);
	place = gck_cuda_handle_map_get(&by_key, what.key);
	if (!place)
		return make(&what);
	cache = (struct gck_cuda_stream_cache *)(uintptr_t)*place;
	return cache->stream == stream && cache->thread == what.thread &&
	       (!what.context || cache->context == what.context) ? cache : NULL;
}

/* The same as the cache of a destroyed stream. */
struct gck_cuda_stream_cache *gck_cuda_stream_cache_of_context(CUcontext context)
{
	struct gck_cuda_stream_cache *cache = gck_cuda_stream_caches;

	while (cache && (cache->key || cache->context != context))
		cache = cache->next;
	if (cache || !gck_cuda_has((void *)gck_cuda_real.cuCtxRecordEvent))
		return cache;
	cache = calloc(1, sizeof *cache);
	if (!cache || gck_cuda_device_of(context, &cache->device)) {
		free(cache);
		return NULL;
	}
	cache->context = context;
	cache->next = gck_cuda_stream_caches;
	gck_cuda_stream_caches = cache;
	return cache;
}

/* ---- their end ------------------------------------------------------------------------------ */

void gck_cuda_stream_caches_stream_ends(CUstream stream, bool askable)
{
	const uint64_t *place = gck_cuda_handle_map_get(&by_key, (uint64_t)(uintptr_t)stream);
	struct gck_cuda_stream_cache *cache =
		place ? (struct gck_cuda_stream_cache *)(uintptr_t)*place : NULL;

	if (!cache)
		return;
	if (cache->n && askable)
		gck_cuda_fence_set(cache);
	gck_cuda_handle_map_drop(&by_key, cache->key);
	cache->key = 0;
	cache->stream = NULL;
}

void gck_cuda_stream_caches_tidy(void)
{
	for (struct gck_cuda_stream_cache **at = &gck_cuda_stream_caches; *at;) {
		struct gck_cuda_stream_cache *cache = *at;

		if (cache->n) {
			at = &cache->next;
			continue;
		}
		*at = cache->next;
		if (cache->key)
			gck_cuda_handle_map_drop(&by_key, cache->key);
		fence_end(cache);
		free(cache);
	}
}
