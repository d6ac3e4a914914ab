/* SPDX-License-Identifier: Apache-2.0
 * Which bytes of a range of addresses are taken: pieces in the order of their addresses, best fit,
 * neighbours that are free are one. Knows nothing of CUDA, and has no locks. */
#ifndef GCK_CUDA_ARENA_H
#define GCK_CUDA_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gck_cuda_suballocation {
	uint64_t base;
	uint64_t size;                /* up to the next piece */
	uint64_t asked;               /* bytes that the program asked for; 0: free */
	uint64_t id;                  /* of the allocation */
	void *owner;                  /* the context that it was made in */
	struct gck_cuda_arena *inner; /* not NULL: it is cut up further */
};

struct gck_cuda_arena {
	uint64_t base, size, unit;    /* pieces are multiples of unit */
	struct gck_cuda_suballocation *v;
	size_t n, capacity;
	uint64_t free;                /* bytes in free pieces */
	uint64_t most;                /* no free piece is larger; may be too large */
};

/* unit divides base and size. -1: no memory. */
int gck_cuda_arena_init(struct gck_cuda_arena *a, uint64_t base, uint64_t size, uint64_t unit);
void gck_cuda_arena_free(struct gck_cuda_arena *a);

/* A free piece for so many bytes, taken; valid until the next take or give. NULL: there is none. */
struct gck_cuda_suballocation *gck_cuda_arena_take(struct gck_cuda_arena *a, uint64_t bytes);
void gck_cuda_arena_give(struct gck_cuda_arena *a, uint64_t base); /* of a piece that is taken */

/* The taken piece with this address in what was asked for; NULL: none. */
struct gck_cuda_suballocation *gck_cuda_arena_find(const struct gck_cuda_arena *a, uint64_t address);

static inline bool gck_cuda_arena_is_empty(const struct gck_cuda_arena *a)
{
	return a->free == a->size;
}

#endif
