/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: stream-ordered memory, which is allocated and freed when its stream gets there,
 * and its pools, which cache freed memory up to their threshold. In a capture the memory belongs to
 * the graph. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
	struct CUmemPoolHandle_st *next;
	CUdevice device;
	int reuse[3];
	/* by attribute, from the threshold on */
	uint64_t figures[CU_MEMPOOL_ATTR_USED_MEM_HIGH + 1];
	bool accessible[FAKE_MAX_DEVICES];
};

#define THRESHOLD(pool) ((pool)->figures[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD])
#define RESERVED(pool) ((pool)->figures[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT])
#define USED(pool) ((pool)->figures[CU_MEMPOOL_ATTR_USED_MEM_CURRENT])

static CUmemoryPool default_pools[FAKE_MAX_DEVICES]; /* NULL: nobody has asked for it */
static CUmemoryPool current_pools[FAKE_MAX_DEVICES]; /* NULL: the default one */
static struct CUmemPoolHandle_st *pools;

/* ---- pools ---------------------------------------------------------------------------------- */

/* With the lock. */
static CUmemoryPool begin(CUdevice device)
{
	CUmemoryPool pool = malloc(sizeof *pool);

	*pool = (struct CUmemPoolHandle_st){pools, .device = device, .reuse = {1, 1, 1}};
	pool->accessible[device] = true;
	pools = pool;
	return pool;
}

/* Not one of a driver that was loaded before. */
static bool is_pool(CUmemoryPool pool)
{
	CUmemoryPool p;

	fake_lock();
	p = pools;
	while (p && p != pool)
		p = p->next;
	fake_unlock();
	return p;
}

CUresult fake_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult rc = fake_device(device);

	*pool = NULL;
	if (rc)
		return rc;
	fake_lock();
	if (!default_pools[device])
		default_pools[device] = begin(device);
	*pool = default_pools[device];
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult rc = fake_cuDeviceGetDefaultMemPool(pool, device);

	if (!rc && current_pools[device])
		*pool = current_pools[device];
	return rc;
}

CUresult fake_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult rc = fake_device(device);

	if (rc || !is_pool(pool) || pool->device != device)
		return rc ? rc : CUDA_ERROR_INVALID_VALUE;
	current_pools[device] = pool;
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult rc = fake_device(props->location.id);

	*pool = NULL;
	if (rc)
		return rc;
	fake_lock();
	*pool = begin(props->location.id);
	fake_unlock();
	return CUDA_SUCCESS;
}

/* Its memory is not freed: there may still be allocations of it. */
CUresult fake_cuMemPoolDestroy(CUmemoryPool pool)
{
	CUmemoryPool *at = &pools;

	if (!is_pool(pool) || default_pools[pool->device] == pool)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	fake_unlock();
	if (current_pools[pool->device] == pool)
		current_pools[pool->device] = NULL;
	return CUDA_SUCCESS;
}

static void keep(CUmemoryPool pool, uint64_t bytes)
{
	if (RESERVED(pool) > bytes)
		RESERVED(pool) = USED(pool) > bytes ? USED(pool) : bytes;
}

CUresult fake_cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
	if (!is_pool(pool))
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	keep(pool, bytes);
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGraphMemTrim(CUdevice device)
{
	return fake_device(device);
}

/* ---- settings ------------------------------------------------------------------------------- */

CUresult fake_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	if (!is_pool(pool) || !which || which > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->reuse[which - 1] = *(const int *)value;
	else if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		THRESHOLD(pool) = *(const cuuint64_t *)value;
	else if ((which != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH &&
		  which != CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
		 *(const cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE; /* a high-water mark: only to the current value */
	else
		pool->figures[which] = pool->figures[which - 1];
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	if (!is_pool(pool) || !which || which > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		*(int *)value = pool->reuse[which - 1];
	else
		*(cuuint64_t *)value = pool->figures[which];
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_pool(pool) || map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    fake_device(map[i].location.id) ||
		    (map[i].location.id == pool->device && !map[i].flags))
			return CUDA_ERROR_INVALID_VALUE;
		pool->accessible[map[i].location.id] = map[i].flags != 0;
	}
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
				 CUmemLocation *location)
{
	if (!is_pool(pool) || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    fake_device(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = pool->accessible[location->id] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void raise(CUmemoryPool pool, CUmemPool_attribute which)
{
	if (pool->figures[which] > pool->figures[which + 1])
		pool->figures[which + 1] = pool->figures[which];
}

/* Without a context, except that a capture may forbid the call. */
CUresult fake_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool,
				      CUstream stream)
{
	CUstreamCaptureMode before = fake_capture_mode;
	struct CUstream_st *s;
	struct fake_block *b;
	CUresult rc;

	fake_lock();
	s = fake_stream(stream);
	fake_unlock();
	fake_capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	rc = !s		      ? CUDA_ERROR_INVALID_HANDLE
	     : !is_pool(pool) ? CUDA_ERROR_INVALID_VALUE
			      : fake_cuMemAlloc_v2(address, size);
	fake_capture_mode = before;
	if (rc)
		return rc;
	fake_lock();
	b = fake_find(*address);
	b->context = NULL;
	b->graph = s->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (b->graph) {
		rc = fake_give(s, &(const struct fake_op){
					  .node = 1 + CU_GRAPH_NODE_TYPE_MEM_ALLOC});
	} else {
		b->pool = pool;
		USED(pool) += size;
		if (RESERVED(pool) < USED(pool))
			RESERVED(pool) = USED(pool);
		raise(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
		raise(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	struct CUstream_st *s;
	CUmemoryPool pool;
	CUresult rc;

	fake_lock();
	s = fake_stream(stream);
	fake_unlock();
	if (!s)
		return fake_current() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
	rc = fake_cuDeviceGetMemPool(&pool, s->context->device);
	return rc ? rc : fake_cuMemAllocFromPoolAsync(address, size, pool, stream);
}

static void run_free(struct fake_op *op)
{
	fake_lock();
	fake_unmap(fake_find(op->args[0]));
	fake_unlock();
}

static void leave_pool(struct fake_block *b)
{
	if (!b->pool)
		return;
	USED(b->pool) -= b->size;
	keep(b->pool, THRESHOLD(b->pool));
	b->pool = NULL;
}

/* A capture allows only frees of a graph's memory, which do nothing here. Managed memory is
 * refused. */
static CUresult give(struct CUstream_st *s, struct fake_block *b, CUdeviceptr address)
{
	struct fake_op op = {.run = run_free, .args = {address}};

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (b && b->kind == FAKE_MANAGED)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!b || b->base != address || b->kind != FAKE_DEVICE || b->freed)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return b->graph ? fake_give(s, &(const struct fake_op){
					  .node = 1 + CU_GRAPH_NODE_TYPE_MEM_FREE})
				: CUDA_ERROR_INVALID_VALUE;
	b->freed = true;
	leave_pool(b);
	return fake_give(s, &op);
}

CUresult fake_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	CUresult rc;

	fake_lock();
	rc = give(fake_stream(stream), fake_find(address), address);
	fake_unlock();
	return rc;
}

void fake_pool_free(struct fake_block *b)
{
	leave_pool(b);
}

/* Handles are not used again. */
void fake_pools_anew(void)
{
	pools = NULL;
	memset(default_pools, 0, sizeof default_pools);
	memset(current_pools, 0, sizeof current_pools);
}
