/* SPDX-License-Identifier: Apache-2.0
 * The program's managed memory: suballocations of arenas. An arena is one allocation of the
 * driver's at an address of our choice, so that it can be taken away and brought back there
 * (managed_swap.h). */
#ifndef GCK_CUDA_MANAGED_H
#define GCK_CUDA_MANAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/arena.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/memory/device_memory.h"

struct gck_cuda_managed {
	uint64_t base, size;
	CUcontext context;           /* the arena ends with it */
	uint64_t id;
	struct gck_cuda_arena suballocations;
	bool away;                   /* the driver has no memory there: ordinary memory has the
				      * contents */
};

/* Access needs the lock, except in the CUDA thread while the gate is closed. */
struct gck_cuda_managed_list {
	struct gck_cuda_managed **v;
	size_t n, capacity;
};
extern struct gck_cuda_managed_list gck_cuda_managed;

/* Whether the address is in an arena. Then rc says whether an allocation begins there, and a
 * describes it. */
bool gck_cuda_managed_is_ours(uint64_t address, struct gck_cuda_allocation *a, CUresult *rc)
	GCK_MUST_CHECK;

/* The allocation that has the address; false: none. */
bool gck_cuda_managed_find(uint64_t address, struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* Free it. CUDA_ERROR_INVALID_VALUE: another thread has freed it. */
CUresult gck_cuda_managed_give(const struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* A context has ended, with its arenas; newest: see gck_cuda_memory_forget. */
void gck_cuda_managed_forget(CUcontext context, uint64_t newest);

/* The bytes of all arenas, which is the host memory that they need while they are away. */
uint64_t gck_cuda_managed_bytes(void);

/* ---- managed_arena.c, with the lock held ---------------------------------------------------- */

/* Make an arena for so many bytes and list it. CUDA_ERROR_NOT_SUPPORTED: the driver does not map
 * its memory where it is told to. */
CUresult gck_cuda_managed_grow(CUcontext context, uint64_t bytes) GCK_MUST_CHECK;
/* Give an empty arena back to the driver. */
CUresult gck_cuda_managed_drop(struct gck_cuda_managed *m);
/* Remove an arena that the driver has freed. */
void gck_cuda_managed_unlist(struct gck_cuda_managed *m);

#endif
