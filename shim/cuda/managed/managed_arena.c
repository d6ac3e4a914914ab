/* SPDX-License-Identifier: Apache-2.0
 * Arenas of managed memory. */
#include "shim/cuda/base/state.h"
#include "shim/cuda/managed/managed.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/advice.h"
#include "shim/cuda/managed/mmap_hook.h"

#define UNIT 4096 /* a page: advice is about pages */

struct gck_cuda_managed_list gck_cuda_managed;

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Reserve addresses; 0: there are none. */
static uint64_t reserve(uint64_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t reserved = size + GCK_CUDA_MANAGED_UNIT, start, base;
	void *at = mmap(NULL, reserved, PROT_NONE, flags, -1, 0);

	if (at == MAP_FAILED)
		return 0;
	start = (uintptr_t)at;
	base = up(start, GCK_CUDA_MANAGED_UNIT);
	if (base > start)
		munmap(at, base - start);
	munmap((void *)(uintptr_t)(base + size), start + reserved - base - size);
	return base;
}

/* Allocate the driver's memory at that address. On failure the address range is free. */
static CUresult provide(uint64_t base, uint64_t size)
{
	struct gck_cuda_mmap_target s = {.base = base, .size = size, .coming = true};
	CUdeviceptr at = 0;
	CUresult rc;

	gck_cuda_mmap_hook_set(&s);
	rc = gck_cuda_real.cuMemAllocManaged(&at, size, CU_MEM_ATTACH_GLOBAL);
	gck_cuda_mmap_hook_set(NULL);
	if (rc == CUDA_SUCCESS && at != base) {
		gck_cuda_real.cuMemFree_v2(at);
		rc = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (rc && !s.gone)
		munmap((void *)(uintptr_t)base, size);
	return rc;
}

uint64_t gck_cuda_managed_bytes(void)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < gck_cuda_managed.n; i++)
		bytes += gck_cuda_managed.v[i]->size;
	return bytes;
}

static int list(struct gck_cuda_managed *m)
{
	struct gck_cuda_managed_list *all = &gck_cuda_managed;
	size_t capacity = all->capacity ? 2 * all->capacity : 16;
	struct gck_cuda_managed **v;

	if (all->n == all->capacity) {
		v = realloc(all->v, capacity * sizeof *v);
		if (!v)
			return -1;
		all->v = v;
		all->capacity = capacity;
	}
	all->v[all->n++] = m;
	gck_cuda_state.device_bytes += m->size; /* the driver never keeps it on the device in a
						 * checkpoint */
	gck_cuda_state.managed_mib += (uint32_t)(m->size >> 20);
	return 0;
}

void gck_cuda_managed_unlist(struct gck_cuda_managed *m)
{
	struct gck_cuda_managed_list *all = &gck_cuda_managed;
	size_t i = 0;

	while (all->v[i] != m)
		i++;
	all->v[i] = all->v[--all->n];
	gck_cuda_state.device_bytes -= m->size;
	gck_cuda_state.managed_mib -= (uint32_t)(m->size >> 20);
	gck_cuda_advice_forget(m->base, m->size);
	gck_cuda_arena_free(&m->suballocations);
	free(m);
}

static struct gck_cuda_managed *arena_new(CUcontext context, uint64_t size)
{
	struct gck_cuda_managed *m = calloc(1, sizeof *m);
	uint64_t base = m ? reserve(size) : 0;

	if (base) {
		*m = (struct gck_cuda_managed){.base = base, .size = size, .context = context,
					       .id = gck_cuda_memory_id()};
		if (gck_cuda_arena_init(&m->suballocations, base, size, UNIT) == 0)
			return m;
		munmap((void *)(uintptr_t)base, size);
	}
	free(m);
	return NULL;
}

CUresult gck_cuda_managed_grow(CUcontext context, uint64_t bytes)
{
	uint64_t size = up(bytes, GCK_CUDA_MANAGED_UNIT);
	struct gck_cuda_managed *m;
	CUresult rc;

	m = size < bytes ? NULL : arena_new(context, size);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = provide(m->base, size);
	if (rc == CUDA_SUCCESS && list(m) == 0)
		return CUDA_SUCCESS;
	if (rc == CUDA_SUCCESS) {
		gck_cuda_real.cuMemFree_v2(m->base);
		rc = CUDA_ERROR_OUT_OF_MEMORY;
	}
	gck_cuda_arena_free(&m->suballocations);
	free(m);
	return rc;
}

CUresult gck_cuda_managed_drop(struct gck_cuda_managed *m)
{
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(m->context);
	CUcontext popped;

	if (rc)
		return rc;
	rc = gck_cuda_real.cuMemFree_v2(m->base);
	gck_cuda_real.cuCtxPopCurrent_v2(&popped);
	if (rc == CUDA_SUCCESS)
		gck_cuda_managed_unlist(m);
	return rc;
}
