/* SPDX-License-Identifier: Apache-2.0
 * Where the program's memory is mapped. A mapping is off the list, with a place in it reserved,
 * before the driver maps or unmaps it, so that nothing can fail afterwards. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/vmm/vmm.h"

struct gck_cuda_mappings gck_cuda_mappings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first at the address or behind it. */
static size_t place(uint64_t address)
{
	size_t low = 0, high = gck_cuda_mappings.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (gck_cuda_mappings.v[middle]->base < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int grow(struct gck_cuda_mappings *all)
{
	size_t capacity = all->capacity ? 2 * all->capacity : 64;
	struct gck_cuda_mapping **v;

	if (all->n + all->off < all->capacity)
		return 0;
	v = realloc(all->v, capacity * sizeof *v);
	if (!v)
		return -1;
	all->v = v;
	all->capacity = capacity;
	return 0;
}

struct gck_cuda_mapping *gck_cuda_mapping_new(uint64_t base, uint64_t size, uint64_t offset,
					      struct gck_cuda_handle *h)
{
	struct gck_cuda_mapping *m = malloc(sizeof *m);
	int failed;

	if (!m)
		return NULL;
	*m = (struct gck_cuda_mapping){.base = base, .size = size, .offset = offset,
				       .number = gck_cuda_memory_id(), .of = h, .mapped = true};
	pthread_mutex_lock(&lock);
	failed = grow(&gck_cuda_mappings);
	if (!failed)
		gck_cuda_mappings.off++;
	pthread_mutex_unlock(&lock);
	if (failed)
		free(m);
	return failed ? NULL : m;
}

struct gck_cuda_mapping *gck_cuda_mappings_take_off(uint64_t base, uint64_t size)
{
	struct gck_cuda_mappings *all = &gck_cuda_mappings;
	struct gck_cuda_mapping *taken = NULL;
	size_t from, to;

	pthread_mutex_lock(&lock);
	for (from = to = place(base); to < all->n; to++) {
		struct gck_cuda_mapping *m = all->v[to];

		if (m->base - base >= size || m->size > size - (m->base - base))
			break;
		m->next = taken;
		taken = m;
	}
	if (to > from)
		memmove(&all->v[from], &all->v[to], (all->n - to) * sizeof *all->v);
	all->n -= to - from;
	all->off += to - from;
	pthread_mutex_unlock(&lock);
	return taken;
}

void gck_cuda_mappings_put_on(struct gck_cuda_mapping *m)
{
	struct gck_cuda_mappings *all = &gck_cuda_mappings;

	pthread_mutex_lock(&lock);
	for (; m; m = m->next) {
		size_t at = place(m->base);

		memmove(&all->v[at + 1], &all->v[at], (all->n - at) * sizeof *all->v);
		all->v[at] = m;
		all->n++;
		all->off--;
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_mappings_end(struct gck_cuda_mapping *m)
{
	struct gck_cuda_mapping *next;

	for (; m; m = next) {
		next = m->next;
		pthread_mutex_lock(&lock);
		gck_cuda_mappings.off--;
		pthread_mutex_unlock(&lock);
		gck_cuda_obstacle_remove(GCK_CUDA_HOST_ACCESS, (uintptr_t)m);
		gck_cuda_handle_let_go(m->of);
		free(m);
	}
}

/* Access of the host cannot be restored: it counts as an obstacle. */
static void allow(struct gck_cuda_mapping *m, const CUmemAccessDesc *a)
{
	uint64_t bit;

	if (a->location.type != CU_MEM_LOCATION_TYPE_DEVICE || a->location.id < 0 ||
	    a->location.id >= GCK_CUDA_DEVICES_MAX) {
		if (a->flags)
			gck_cuda_obstacle_add_once(GCK_CUDA_HOST_ACCESS, (uintptr_t)m);
		else
			gck_cuda_obstacle_remove(GCK_CUDA_HOST_ACCESS, (uintptr_t)m);
		return;
	}
	bit = 1ull << a->location.id;
	m->readable = a->flags ? m->readable | bit : m->readable & ~bit;
	m->writable = a->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? m->writable | bit
								     : m->writable & ~bit;
}

void gck_cuda_mappings_allow(uint64_t base, uint64_t size, const CUmemAccessDesc *access, size_t n)
{
	pthread_mutex_lock(&lock);
	for (size_t i = place(base); i < gck_cuda_mappings.n; i++) {
		struct gck_cuda_mapping *m = gck_cuda_mappings.v[i];

		if (m->base - base >= size)
			break;
		for (size_t k = 0; k < n; k++)
			allow(m, &access[k]);
	}
	pthread_mutex_unlock(&lock);
}

struct gck_cuda_handle *gck_cuda_mappings_hold(uint64_t address, uint64_t *number)
{
	const struct gck_cuda_mapping *m = NULL;
	struct gck_cuda_handle *h;
	size_t behind;

	pthread_mutex_lock(&lock);
	behind = place(address + 1);
	if (behind > 0 &&
	    address - gck_cuda_mappings.v[behind - 1]->base < gck_cuda_mappings.v[behind - 1]->size)
		m = gck_cuda_mappings.v[behind - 1];
	h = m ? m->of : NULL;
	if (h)
		gck_cuda_handle_hold_too(h);
	if (h && number)
		*number = m->number;
	pthread_mutex_unlock(&lock);
	return h;
}

void gck_cuda_mappings_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
