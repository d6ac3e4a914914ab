/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/stream/pool.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/real.h"

#define SLACK ((uint64_t)32 << 20) /* the size of a slab */

static struct gck_cuda_handle_map made; /* handle: pool */
static struct {
	bool known;
	struct gck_cuda_pool *pool;
} current[GCK_CUDA_DEVICES_MAX];
static _Atomic uint64_t retained[GCK_CUDA_DEVICES_MAX];

/* ---- the pools ------------------------------------------------------------------------------ */

static void add(CUmemoryPool handle, CUdevice device)
{
	struct gck_cuda_pool *pool = device < GCK_CUDA_DEVICES_MAX ? calloc(1, sizeof *pool) : NULL;
	uint64_t *place = pool ? gck_cuda_handle_map_put(&made, (uint64_t)(uintptr_t)handle) : NULL;

	if (!place) {
		free(pool);
		return;
	}
	*pool = (struct gck_cuda_pool){.handle = handle, .device = device, .opportunistic = true,
				       .internal = true, .uses = 1};
	*place = (uint64_t)(uintptr_t)pool;
}

/* Every device has a pool from the start. */
static void add_defaults(void)
{
	static bool done;
	CUmemoryPool handle;
	int n = 0;

	if (done || gck_cuda_real.cuDeviceGetCount(&n))
		return;
	for (CUdevice d = 0; d < n; d++) {
		if (gck_cuda_real.cuDeviceGetDefaultMemPool(&handle, d) == CUDA_SUCCESS)
			add(handle, d);
	}
	done = true;
}

struct gck_cuda_pool *gck_cuda_pool_of(CUmemoryPool handle)
{
	const uint64_t *place;

	add_defaults();
	place = gck_cuda_handle_map_get(&made, (uint64_t)(uintptr_t)handle);
	return place ? (struct gck_cuda_pool *)(uintptr_t)*place : NULL;
}

struct gck_cuda_pool *gck_cuda_pool_current(CUdevice device)
{
	CUmemoryPool handle;

	if (device >= GCK_CUDA_DEVICES_MAX)
		return NULL;
	if (!current[device].known &&
	    gck_cuda_real.cuDeviceGetMemPool(&handle, device) == CUDA_SUCCESS) {
		current[device].pool = gck_cuda_pool_of(handle);
		current[device].known = true;
	}
	return current[device].known ? current[device].pool : NULL;
}

void gck_cuda_pool_current_changed(void)
{
	for (int d = 0; d < GCK_CUDA_DEVICES_MAX; d++)
		current[d].known = false;
}

/* Only memory on a device that no other process may use can be on slabs. */
void gck_cuda_pool_made(CUmemoryPool handle, const CUmemPoolProps *p)
{
	if (p->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	    p->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
	    p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !p->maxSize && !p->usage)
		add(handle, p->location.id);
}

void gck_cuda_pool_hide(struct gck_cuda_pool *pool)
{
	gck_cuda_handle_map_drop(&made, (uint64_t)(uintptr_t)pool->handle);
}

void gck_cuda_pool_show(struct gck_cuda_pool *pool)
{
	uint64_t *place = gck_cuda_handle_map_put(&made, (uint64_t)(uintptr_t)pool->handle);

	if (place)
		*place = (uint64_t)(uintptr_t)pool;
}

void gck_cuda_pool_destroyed(struct gck_cuda_pool *pool)
{
	gck_cuda_pool_current_changed();
	pool->destroyed = true;
	gck_cuda_pool_keep(pool, 0);
	gck_cuda_pool_unuse(pool);
}

void gck_cuda_pool_use(struct gck_cuda_pool *pool)
{
	pool->uses++;
}

void gck_cuda_pool_unuse(struct gck_cuda_pool *pool)
{
	if (!--pool->uses)
		free(pool);
}

/* ---- their memory --------------------------------------------------------------------------- */

static void set_retained(struct gck_cuda_pool *pool, uint64_t bytes)
{
	retained[pool->device] += bytes - pool->retained;
	pool->retained = bytes;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void gck_cuda_pool_keep(struct gck_cuda_pool *pool, uint64_t reserved)
{
	set_retained(pool,
		     least(pool->retained, reserved > pool->held ? reserved - pool->held : 0));
}

void gck_cuda_pool_gets(struct gck_cuda_pool *pool, uint64_t size)
{
	set_retained(pool, pool->retained - least(pool->retained, size));
	pool->held += size;
	pool->uses++;
	if (pool->held + pool->retained > pool->reserved_high)
		pool->reserved_high = pool->held + pool->retained;
}

void gck_cuda_pool_gives(struct gck_cuda_pool *pool, uint64_t size)
{
	pool->held -= size;
	if (!pool->destroyed) {
		set_retained(pool, pool->retained + size);
		gck_cuda_pool_keep(pool, pool->threshold);
	}
	gck_cuda_pool_unuse(pool);
}

void gck_cuda_pool_allocates(struct gck_cuda_pool *pool, uint64_t bytes)
{
	pool->used += bytes;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
}

void gck_cuda_pool_frees(struct gck_cuda_pool *pool, uint64_t bytes)
{
	pool->used -= bytes;
}

void gck_cuda_pools_keep_nothing(void)
{
	for (size_t i = 0; i < made.capacity; i++) {
		if (made.entries[i].handle)
			gck_cuda_pool_keep((struct gck_cuda_pool *)(uintptr_t)made.entries[i].value,
					   0);
	}
}

/* Slabs keep SLACK in any case. Without opportunistic reuse other streams get cached memory only
 * when it is returned. */
bool gck_cuda_pool_is_large(const struct gck_cuda_pool *pool)
{
	return !pool->opportunistic ||
	       (pool->held > pool->used + SLACK && pool->held - SLACK > pool->threshold);
}

uint64_t gck_cuda_pools_retained(CUdevice device)
{
	return device >= 0 && device < GCK_CUDA_DEVICES_MAX ? retained[device] : 0;
}
