/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/arena.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 16

int gck_cuda_arena_init(struct gck_cuda_arena *a, uint64_t base, uint64_t size, uint64_t unit)
{
	*a = (struct gck_cuda_arena){.base = base, .size = size, .unit = unit, .free = size,
				     .most = size, .n = 1, .capacity = LEAST};
	a->v = calloc(LEAST, sizeof *a->v);
	if (!a->v)
		return -1;
	a->v[0] = (struct gck_cuda_suballocation){.base = base, .size = size};
	return 0;
}

void gck_cuda_arena_free(struct gck_cuda_arena *a)
{
	free(a->v);
	*a = (struct gck_cuda_arena){.v = NULL};
}

/* The index of the suballocation that holds the address, which lies in the arena. */
static size_t place(const struct gck_cuda_arena *a, uint64_t address)
{
	size_t low = 0, high = a->n;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (a->v[middle].base <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static int grow(struct gck_cuda_arena *a)
{
	struct gck_cuda_suballocation *v;

	if (a->n < a->capacity)
		return 0;
	v = realloc(a->v, 2 * a->capacity * sizeof *v);
	if (!v)
		return -1;
	a->v = v;
	a->capacity *= 2;
	return 0;
}

/* The index of the smallest free one that is large enough; a->n: there is none. */
static size_t best(struct gck_cuda_arena *a, uint64_t size)
{
	size_t found = a->n;
	uint64_t most = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i].requested)
			continue;
		if (a->v[i].size == size)
			return i;
		most = a->v[i].size > most ? a->v[i].size : most;
		if (a->v[i].size > size && (found == a->n || a->v[i].size < a->v[found].size))
			found = i;
	}
	a->most = most;
	return found;
}

struct gck_cuda_suballocation *gck_cuda_arena_take(struct gck_cuda_arena *a, uint64_t bytes)
{
	uint64_t size = (bytes + a->unit - 1) / a->unit * a->unit;
	struct gck_cuda_suballocation *p;
	size_t i;

	if (!bytes || size < bytes || size > a->most || grow(a))
		return NULL;
	i = best(a, size);
	if (i == a->n)
		return NULL;
	p = &a->v[i];
	if (p->size > size) {
		memmove(p + 1, p, (a->n - i) * sizeof *p);
		a->n++;
		p[1].base += size;
		p[1].size -= size;
	}
	*p = (struct gck_cuda_suballocation){.base = p->base, .size = size, .requested = bytes};
	a->free -= size;
	return p;
}

/* Join suballocation i + 1 to i. */
static void join(struct gck_cuda_arena *a, size_t i)
{
	a->v[i].size += a->v[i + 1].size;
	a->n--;
	memmove(&a->v[i + 1], &a->v[i + 2], (a->n - i - 1) * sizeof *a->v);
}

void gck_cuda_arena_give(struct gck_cuda_arena *a, uint64_t base)
{
	size_t i = place(a, base);

	a->free += a->v[i].size;
	a->v[i] = (struct gck_cuda_suballocation){.base = a->v[i].base, .size = a->v[i].size};
	if (i + 1 < a->n && !a->v[i + 1].requested)
		join(a, i);
	if (i > 0 && !a->v[i - 1].requested)
		join(a, --i);
	a->most = a->v[i].size > a->most ? a->v[i].size : a->most;
}

struct gck_cuda_suballocation *gck_cuda_arena_find(const struct gck_cuda_arena *a, uint64_t address)
{
	struct gck_cuda_suballocation *p;

	if (address < a->base || address >= a->base + a->size)
		return NULL;
	p = &a->v[place(a, address)];
	return p->requested && address - p->base < p->requested ? p : NULL;
}
