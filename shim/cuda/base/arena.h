/* SPDX-License-Identifier: Apache-2.0
 * Which bytes of a range of addresses are allocated: suballocations in the order of their
 * addresses. Best fit; free neighbours are joined. Knows nothing of CUDA and takes no locks. */
#ifndef GCK_CUDA_ARENA_H
#define GCK_CUDA_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct gck_cuda_suballocation {
	uint64_t base;
	uint64_t size;                /* up to the next piece */
	uint64_t requested;               /* bytes that the program asked for; 0: it is free */
	uint64_t id;                  /* of the allocation */
	void *owner;                  /* the context that it was allocated in */
	struct gck_cuda_arena *inner; /* not NULL: it is divided further */
};

struct gck_cuda_arena {
	uint64_t base, size, unit;    /* suballocations are multiples of unit */
	struct gck_cuda_suballocation *v;
	size_t n, capacity;
	uint64_t free;                /* bytes in free suballocations */
	uint64_t most;                /* at least the size of the largest free one */
};

/* unit divides base and size. Returns -1 if there is no memory. */
int gck_cuda_arena_init(struct gck_cuda_arena *a, uint64_t base, uint64_t size, uint64_t unit)
	GCK_MUST_CHECK;
void gck_cuda_arena_free(struct gck_cuda_arena *a);

/* Allocate `bytes`. Returns the suballocation, valid until the next take or give; NULL: none is
 * large enough. */
struct gck_cuda_suballocation *gck_cuda_arena_take(struct gck_cuda_arena *a, uint64_t bytes)
	GCK_MUST_CHECK;
void gck_cuda_arena_give(struct gck_cuda_arena *a, uint64_t base); /* frees an allocated one */

/* The allocated one whose requested bytes include the address; NULL: none. */
struct gck_cuda_suballocation *gck_cuda_arena_find(const struct gck_cuda_arena *a,
						   uint64_t address) GCK_MUST_CHECK;

static inline bool gck_cuda_arena_is_empty(const struct gck_cuda_arena *a)
{
	return a->free == a->size;
}

#endif
