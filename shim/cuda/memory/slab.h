/* SPDX-License-Identifier: Apache-2.0
 * Slabs: physical memory of a device, mapped into a range of addresses of our own and divided
 * among allocations. The driver can forget a slab's memory and map it again at its place
 * (physical.h). */
#ifndef GCK_CUDA_SLAB_H
#define GCK_CUDA_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/arena.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/memory/physical.h"

#define GCK_CUDA_SLAB_UNIT ((uint64_t)2 << 20) /* the driver's granularity */

struct gck_cuda_slab {
	uint64_t base, size;
	CUdevice device;
	struct gck_cuda_physical memory;
	bool mapped;
	struct gck_cuda_arena arena;
};

/* All slabs in the order of their addresses. Access to them and the functions below need the
 * lock, except in the CUDA thread while the gate is closed: no other thread is there. */
struct gck_cuda_slabs {
	struct gck_cuda_slab **v;
	size_t n, capacity;
};
extern struct gck_cuda_slabs gck_cuda_slabs;

void gck_cuda_slabs_lock(void);
void gck_cuda_slabs_unlock(void);
/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_slabs_forked(void);

/* Make a slab of `size` bytes (a multiple of the unit), mapped and empty.
 * CUDA_ERROR_NOT_SUPPORTED: slabs are not possible here, let the driver allocate. */
CUresult gck_cuda_slab_new(CUdevice device, uint64_t size, struct gck_cuda_slab **slab)
	GCK_MUST_CHECK;
/* Unmap and free an empty slab. */
void gck_cuda_slab_drop(struct gck_cuda_slab *slab);

/* The slab with that address; NULL: none. */
struct gck_cuda_slab *gck_cuda_slab_of(uint64_t address);

/* The driver is gone, and all slabs' memory with it. */
void gck_cuda_slabs_lost(void);

/* Provide new memory to slabs that are not mapped, in place of the old. */
CUresult gck_cuda_slabs_renew(struct gck_cuda_renewed *r) GCK_MUST_CHECK;

/* Reserve addresses of the slabs' range for memory that is no listed slab; 0: none are left. */
uint64_t gck_cuda_region_take(uint64_t size) GCK_MUST_CHECK;
void gck_cuda_region_give(uint64_t base);

#endif
