/* SPDX-License-Identifier: Apache-2.0
 * CUDA's calls about pools of stream-ordered memory. Pools are objects of the driver's, with their
 * settings. Memory of pools on a device for this process alone is on slabs (pool.h). Other
 * pools' memory is the driver's, which saves what is allocated; what they keep for later is
 * released before a checkpoint. */
#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/memory/slab_supply.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/ordered_memory.h"
#include "shim/cuda/stream/pool.h"

static struct gck_cuda_handle_map made; /* pool: 1. A pool without an entry is saved as it is */

/* ---- creation and destruction --------------------------------------------------------------- */

GCK_CUDA_FUNCTION(cuMemPoolCreate, (CUmemoryPool *pool, const CUmemPoolProps *properties))
{
	uint64_t *place;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	GCK_CUDA_TRY(rc, gck_cuda_real.cuMemPoolCreate(pool, properties));
	if (rc == CUDA_SUCCESS) {
		gck_cuda_ordered_lock();
		gck_cuda_pool_made(*pool, properties);
		place = gck_cuda_handle_map_put(&made, (uint64_t)(uintptr_t)*pool);
		if (place)
			*place = 1;
		gck_cuda_ordered_unlock();
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* Remove it first: another pool may be given the same handle at once. */
GCK_CUDA_FUNCTION(cuMemPoolDestroy, (CUmemoryPool handle))
{
	struct gck_cuda_pool *pool;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_ordered_lock();
	gck_cuda_handle_map_drop(&made, (uint64_t)(uintptr_t)handle);
	pool = gck_cuda_pool_of(handle);
	if (pool)
		gck_cuda_pool_hide(pool);
	gck_cuda_ordered_unlock();
	rc = gck_cuda_real.cuMemPoolDestroy(handle);
	gck_cuda_ordered_lock();
	gck_cuda_pool_current_changed();
	if (pool && rc)
		gck_cuda_pool_show(pool); /* a device's default pool cannot be destroyed */
	else if (pool)
		gck_cuda_pool_destroyed(pool);
	gck_cuda_ordered_unlock();
	if (rc == CUDA_SUCCESS)
		gck_cuda_obstacle_remove(GCK_CUDA_POOL_IMPORT, (uint64_t)(uintptr_t)handle);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- the current pool of a device ----------------------------------------------------------- */

static CUresult changed(CUresult rc)
{
	gck_cuda_ordered_lock();
	gck_cuda_pool_current_changed();
	gck_cuda_ordered_unlock();
	return rc;
}

GCK_CUDA_FUNCTION(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = changed(gck_cuda_real.cuDeviceSetMemPool(device, pool));
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemSetMemPool,
		  (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = changed(gck_cuda_real.cuMemSetMemPool(location, type, pool));
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- settings and figures ------------------------------------------------------------------- */

/* The driver has accepted the value. */
static void set(struct gck_cuda_pool *pool, CUmemPool_attribute which, const void *value)
{
	switch (which) {
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		pool->opportunistic = *(const int *)value != 0;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->internal = *(const int *)value != 0;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(const cuuint64_t *)value;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		pool->reserved_high = pool->held + pool->retained;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		pool->used_high = pool->used;
		break;
	default:
		break;
	}
}

/* What is added to the driver's answer. */
static uint64_t figure(const struct gck_cuda_pool *pool, CUmemPool_attribute which)
{
	switch (which) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return pool->held + pool->retained;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return pool->used_high;
	default:
		return 0;
	}
}

GCK_CUDA_FUNCTION(cuMemPoolSetAttribute,
		  (CUmemoryPool handle, CUmemPool_attribute which, void *value))
{
	struct gck_cuda_pool *pool;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemPoolSetAttribute(handle, which, value);
	if (rc == CUDA_SUCCESS) {
		gck_cuda_ordered_lock();
		pool = gck_cuda_pool_of(handle);
		if (pool)
			set(pool, which, value);
		gck_cuda_ordered_unlock();
	}
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemPoolGetAttribute,
		  (CUmemoryPool handle, CUmemPool_attribute which, void *value))
{
	const struct gck_cuda_pool *pool;
	uint64_t ours;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemPoolGetAttribute(handle, which, value);
	if (rc == CUDA_SUCCESS) {
		gck_cuda_ordered_lock();
		pool = gck_cuda_pool_of(handle);
		ours = pool ? figure(pool, which) : 0;
		gck_cuda_ordered_unlock();
		if (ours)
			*(cuuint64_t *)value += ours;
	}
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep))
{
	struct gck_cuda_pool *pool;
	CUdevice device = -1;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemPoolTrimTo(handle, keep);
	if (rc == CUDA_SUCCESS) {
		gck_cuda_ordered_collect();
		gck_cuda_ordered_lock();
		pool = gck_cuda_pool_of(handle);
		if (pool) {
			gck_cuda_pool_keep(pool, keep);
			device = pool->device;
		}
		gck_cuda_ordered_unlock();
		gck_cuda_slabs_lock();
		gck_cuda_slabs_trim(device);
		gck_cuda_slabs_unlock();
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* Access is given to all slabs of a device: other devices may use more of its memory than the
 * pool's. The driver's documentation says that access, once given to a pool, should not be taken
 * away; here it is not. */
static CUresult allow(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
	const struct gck_cuda_pool *pool;
	CUresult rc = CUDA_SUCCESS;
	CUdevice device;

	gck_cuda_ordered_lock();
	pool = gck_cuda_pool_of(handle);
	device = pool ? pool->device : -1;
	gck_cuda_ordered_unlock();
	if (!pool)
		return CUDA_SUCCESS;
	gck_cuda_slabs_lock();
	for (size_t i = 0; rc == CUDA_SUCCESS && i < n; i++) {
		if (map[i].flags && map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    map[i].location.id != device)
			rc = gck_cuda_slab_allow_for_good(device, map[i].location.id);
	}
	gck_cuda_slabs_unlock();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t n))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemPoolSetAccess(pool, map, n);
	if (rc == CUDA_SUCCESS)
		rc = allow(pool, map, n);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- the part ------------------------------------------------------------------------------- */

/* Nothing waits for our pools' memory any more. Then the driver's pools are trimmed, for devices
 * with a context: others have no pool in use. A failure costs time only. */
static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	(void)err;
	gck_cuda_ordered_rest();
	for (size_t i = 0; i < order->contexts.n; i++) {
		CUdevice device = order->contexts.v[i].device;
		CUmemoryPool pool;

		if (gck_cuda_real.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
			gck_cuda_real.cuMemPoolTrimTo(pool, 0);
		gck_cuda_real.cuDeviceGraphMemTrim(device);
	}
	for (size_t i = 0; i < made.capacity; i++) {
		if (made.entries[i].handle)
			gck_cuda_real.cuMemPoolTrimTo(
				(CUmemoryPool)(uintptr_t)made.entries[i].handle, 0);
	}
	return 0;
}

const struct gck_cuda_participant gck_cuda_pool_participant = {.name = "pools", .drain = drain};
