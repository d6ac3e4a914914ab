/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/managed/managed.h"

#include <pthread.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/advice.h"
#include "shim/cuda/managed/mmap_hook.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- taking --------------------------------------------------------------------------------- */

/* Arenas need devices where CPU and GPU may use managed memory at once. Other devices limit what
 * the CPU may touch, so the driver keeps all managed memory. */
static bool is_possible(void)
{
	static int possible = -1;
	int n = 0, each, all = 1;

	if (possible >= 0)
		return possible;
	if (gck_cuda_real.cuDeviceGetCount(&n))
		return false;
	for (int i = 0; i < n; i++) {
		CUdevice device;

		each = 0;
		if (gck_cuda_real.cuDeviceGet(&device, i) == CUDA_SUCCESS)
			gck_cuda_real.cuDeviceGetAttribute(&each,
				CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
		all &= each != 0;
	}
	possible = all && gck_cuda_mmap_hook_works();
	return possible;
}

static struct gck_cuda_suballocation *take(CUcontext context, uint64_t bytes)
{
	struct gck_cuda_suballocation *p = NULL;

	for (size_t i = 0; !p && i < gck_cuda_managed.n; i++) {
		if (gck_cuda_managed.v[i]->context == context)
			p = gck_cuda_arena_take(&gck_cuda_managed.v[i]->suballocations, bytes);
	}
	return p;
}

/* CUDA_ERROR_NOT_SUPPORTED: let the driver allocate. */
static CUresult take_or_grow(uint64_t bytes, CUdeviceptr *address)
{
	struct gck_cuda_suballocation *p;
	CUresult rc = CUDA_SUCCESS;
	CUcontext context = NULL;

	if (gck_cuda_real.cuCtxGetCurrent(&context) || !context)
		return CUDA_ERROR_NOT_SUPPORTED; /* the driver's call returns the reason */
	pthread_mutex_lock(&lock);
	p = is_possible() ? take(context, bytes) : NULL;
	if (!p) {
		rc = is_possible() ? gck_cuda_managed_grow(context, bytes)
				   : CUDA_ERROR_NOT_SUPPORTED;
		p = rc ? NULL : take(context, bytes);
	}
	if (p) {
		p->owner = context;
		p->id = gck_cuda_memory_id();
		*address = p->base;
	}
	pthread_mutex_unlock(&lock);
	return p ? CUDA_SUCCESS : rc ? rc : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take_drivers(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	struct gck_cuda_mmap_target known = {.size = 0};
	CUresult rc;

	gck_cuda_mmap_hook_set(&known);
	rc = gck_cuda_real.cuMemAllocManaged(address, bytes, flags);
	gck_cuda_mmap_hook_set(NULL);
	if (rc == CUDA_SUCCESS)
		gck_cuda_obstacle_add(GCK_CUDA_MANAGED, *address);
	return rc;
}

/* CU_MEM_ATTACH_HOST has no effect where CPU and GPU may use the memory at once. */
GCK_CUDA_FUNCTION(cuMemAllocManaged, (CUdeviceptr *address, size_t bytes, unsigned int flags))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;

	GCK_CUDA_ENTER(0);
	if (address && bytes && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST))
		rc = take_or_grow(bytes, address);
	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		rc = take_drivers(address, bytes, flags);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- finding and freeing -------------------------------------------------------------------- */

static struct gck_cuda_managed *arena_of(uint64_t address)
{
	for (size_t i = 0; i < gck_cuda_managed.n; i++) {
		struct gck_cuda_managed *m = gck_cuda_managed.v[i];

		if (address >= m->base && address - m->base < m->size)
			return m;
	}
	return NULL;
}

/* True: the address is in an arena. found: it is in an allocation, which a describes. */
static bool look(uint64_t address, struct gck_cuda_allocation *a, bool *found)
{
	const struct gck_cuda_suballocation *p;
	const struct gck_cuda_managed *m;

	*found = false;
	if (!__atomic_load_n(&gck_cuda_managed.n, __ATOMIC_RELAXED))
		return false; /* most programs have none and ask often */
	pthread_mutex_lock(&lock);
	m = arena_of(address);
	p = m ? gck_cuda_arena_find(&m->suballocations, address) : NULL;
	if (p)
		*a = (struct gck_cuda_allocation){.base = p->base, .size = p->requested,
						  .context = p->owner, .id = p->id};
	pthread_mutex_unlock(&lock);
	*found = p != NULL;
	return m != NULL;
}

bool gck_cuda_managed_find(uint64_t address, struct gck_cuda_allocation *a)
{
	bool found;

	look(address, a, &found);
	return found;
}

bool gck_cuda_managed_is_ours(uint64_t address, struct gck_cuda_allocation *a, CUresult *rc)
{
	bool found, ours = look(address, a, &found);

	*rc = found && a->base == address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return ours;
}

/* Of small arenas of a context one empty one is kept. */
static bool is_too_many(const struct gck_cuda_managed *m)
{
	bool other = m->size > GCK_CUDA_MANAGED_UNIT;

	for (size_t i = 0; i < gck_cuda_managed.n; i++) {
		const struct gck_cuda_managed *o = gck_cuda_managed.v[i];

		other |= o != m && o->context == m->context &&
			 gck_cuda_arena_is_empty(&o->suballocations);
	}
	return gck_cuda_arena_is_empty(&m->suballocations) && other;
}

CUresult gck_cuda_managed_give(const struct gck_cuda_allocation *a)
{
	const struct gck_cuda_suballocation *p;
	struct gck_cuda_managed *m;
	bool there;

	pthread_mutex_lock(&lock);
	m = arena_of(a->base);
	p = m ? gck_cuda_arena_find(&m->suballocations, a->base) : NULL;
	there = p && p->base == a->base && p->id == a->id;
	if (there) {
		gck_cuda_advice_undo(p->base, p->size);
		gck_cuda_arena_give(&m->suballocations, a->base);
		if (is_too_many(m))
			gck_cuda_managed_drop(m); /* otherwise it is kept for the next allocation */
	}
	pthread_mutex_unlock(&lock);
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the end of a context ------------------------------------------------------------------- */

void gck_cuda_managed_forget(CUcontext context, uint64_t newest)
{
	pthread_mutex_lock(&lock);
	for (size_t i = gck_cuda_managed.n; i-- > 0;) {
		struct gck_cuda_managed *m = gck_cuda_managed.v[i];

		if (m->context == context && m->id <= newest)
			gck_cuda_managed_unlist(m);
	}
	pthread_mutex_unlock(&lock);
}
