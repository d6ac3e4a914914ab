/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/memory/slab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/memory/free_bytes.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/real.h"

#define REGION 0x600000000000ull
#define REGION_SIZE (1ull << 44) /* the most that the driver grants */

struct gck_cuda_slabs gck_cuda_slabs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_arena region;    /* which addresses are in use */

void gck_cuda_slabs_lock(void)
{
	pthread_mutex_lock(&lock);
}

void gck_cuda_slabs_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void gck_cuda_slabs_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* ---- the region ----------------------------------------------------------------------------- */

static CUresult reserve(void)
{
	CUdeviceptr got = 0;
	CUresult rc = gck_cuda_real.cuMemAddressReserve(&got, REGION_SIZE, 0, REGION, 0);

	if (rc)
		return rc;
	if (got == REGION)
		return CUDA_SUCCESS;
	gck_cuda_real.cuMemAddressFree(got, REGION_SIZE);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Reserve the addresses before their first use. */
static CUresult begin(void)
{
	static CUresult failed;

	if (region.v || failed)
		return failed;
	failed = reserve() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	if (!failed && gck_cuda_arena_init(&region, REGION, REGION_SIZE, GCK_CUDA_SLAB_UNIT))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return failed;
}

uint64_t gck_cuda_region_take(uint64_t size)
{
	const struct gck_cuda_suballocation *where = begin() ? NULL
							     : gck_cuda_arena_take(&region, size);

	return where ? where->base : 0;
}

void gck_cuda_region_give(uint64_t base)
{
	gck_cuda_arena_give(&region, base);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static size_t place(uint64_t address)
{
	size_t low = 0, high = gck_cuda_slabs.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (gck_cuda_slabs.v[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low; /* the first behind the address */
}

static int list(struct gck_cuda_slab *s)
{
	struct gck_cuda_slabs *all = &gck_cuda_slabs;
	size_t capacity = all->capacity ? 2 * all->capacity : 16, at;
	struct gck_cuda_slab **v;

	if (all->n == all->capacity) {
		v = realloc(all->v, capacity * sizeof *v);
		if (!v)
			return -1;
		all->v = v;
		all->capacity = capacity;
	}
	at = place(s->base);
	memmove(&all->v[at + 1], &all->v[at], (all->n - at) * sizeof *all->v);
	all->v[at] = s;
	all->n++;
	return 0;
}

static void unlist(const struct gck_cuda_slab *s)
{
	size_t at = place(s->base) - 1;

	gck_cuda_slabs.n--;
	memmove(&gck_cuda_slabs.v[at], &gck_cuda_slabs.v[at + 1],
		(gck_cuda_slabs.n - at) * sizeof *gck_cuda_slabs.v);
}

CUresult gck_cuda_slab_new(CUdevice device, uint64_t size, struct gck_cuda_slab **slab)
{
	CUresult rc = begin();
	struct gck_cuda_slab *s;
	uint64_t base;

	if (rc)
		return rc;
	s = calloc(1, sizeof *s);
	base = s ? gck_cuda_region_take(size) : 0;
	if (!base) {
		free(s);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*s = (struct gck_cuda_slab){.base = base, .size = size, .device = device};
	rc = gck_cuda_arena_init(&s->arena, s->base, size, 1 << 16) || list(s)
	     ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	if (!rc) {
		rc = gck_cuda_slab_provide(s);
		if (rc)
			unlist(s);
	}
	if (!rc) {
		gck_cuda_free_bytes_changed(device, (int64_t)size);
		*slab = s;
		return CUDA_SUCCESS;
	}
	gck_cuda_region_give(s->base);
	gck_cuda_arena_free(&s->arena);
	free(s);
	return rc;
}

void gck_cuda_slab_drop(struct gck_cuda_slab *s)
{
	gck_cuda_slab_unmap(s);
	gck_cuda_physical_drop(&s->memory);
	unlist(s);
	gck_cuda_free_bytes_changed(s->device, -(int64_t)s->size);
	gck_cuda_region_give(s->base);
	gck_cuda_arena_free(&s->arena);
	free(s);
}

struct gck_cuda_slab *gck_cuda_slab_of(uint64_t address)
{
	size_t at = address >= REGION && address - REGION < REGION_SIZE ? place(address) : 0;
	struct gck_cuda_slab *s = at ? gck_cuda_slabs.v[at - 1] : NULL;

	return s && address - s->base < s->size ? s : NULL;
}

void gck_cuda_slabs_lost(void)
{
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		gck_cuda_slabs.v[i]->mapped = false;
		gck_cuda_physical_lost(&gck_cuda_slabs.v[i]->memory);
	}
}

/* In a restored process the driver's reservation came with the image, or was made again. */
CUresult gck_cuda_slabs_renew(struct gck_cuda_renewed *r)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_slabs.n; i++) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->mapped)
			continue;
		r->device = s->device;
		gck_cuda_physical_drop(&s->memory);
		rc = gck_cuda_slab_provide(s);
		r->n += rc == CUDA_SUCCESS;
	}
	return rc;
}
