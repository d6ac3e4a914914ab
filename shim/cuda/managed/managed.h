/* SPDX-License-Identifier: Apache-2.0
 * The program's managed memory: pieces of arenas, each of which is one allocation of the driver's at an
 * address of our choice, so that it can go and come back there (exchange.c). */
#ifndef GCK_CUDA_MANAGED_H
#define GCK_CUDA_MANAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/arena.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/memory/device_memory.h"

struct gck_cuda_managed {
	uint64_t base, size;
	CUcontext context;           /* which it ends with */
	uint64_t id;
	struct gck_cuda_arena pieces;
	bool away;                   /* the driver has none there: ordinary memory has the contents */
};

/* Whoever looks at them holds the lock; but not the CUDA thread while the gate is closed. */
struct gck_cuda_managed_list {
	struct gck_cuda_managed **v;
	size_t n, capacity;
};
extern struct gck_cuda_managed_list gck_cuda_managed;

/* Is the address in one? Then rc says whether an allocation, which a becomes, begins there. */
bool gck_cuda_managed_is_ours(uint64_t address, struct gck_cuda_allocation *a, CUresult *rc);

/* The one with that address; false: none has. */
bool gck_cuda_managed_find(uint64_t address, struct gck_cuda_allocation *a);

/* Free it. CUDA_ERROR_INVALID_VALUE: somebody has. */
CUresult gck_cuda_managed_give(const struct gck_cuda_allocation *a);

/* A context is gone, and what lay in it, as memory.h says. */
void gck_cuda_managed_forget(CUcontext context, uint64_t newest);

/* Of all of them: so much host memory they take while they are away. */
uint64_t gck_cuda_managed_bytes(void);

/* ---- managed_arena.c, with the lock --------------------------------------------------------- */

/* Another one, with room for so much, in the list. The driver's answer; CUDA_ERROR_NOT_SUPPORTED: it
 * does not map its memory where it is told to. */
CUresult gck_cuda_managed_grow(CUcontext context, uint64_t bytes);
/* An empty one goes back to the driver. */
CUresult gck_cuda_managed_drop(struct gck_cuda_managed *m);
/* One that the driver has no more. */
void gck_cuda_managed_unlist(struct gck_cuda_managed *m);

#endif
