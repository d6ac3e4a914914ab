/* SPDX-License-Identifier: Apache-2.0
 * Slabs: physical memory of a device, mapped into a range of addresses of our own, and cut up. The
 * driver can be told to forget one, which stays as it is (physical.h), and to map it again at its place. */
#ifndef GCK_CUDA_SLAB_H
#define GCK_CUDA_SLAB_H

#include <stdbool.h>
#include <stdint.h>

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

/* Slabs in the order of their addresses, and all that is cut out of them. Whoever looks at them or calls
 * what is below holds the lock; but not the CUDA thread while the gate is closed: nobody else is there. */
struct gck_cuda_slabs {
	struct gck_cuda_slab **v;
	size_t n, capacity;
};
extern struct gck_cuda_slabs gck_cuda_slabs;

void gck_cuda_slabs_lock(void);
void gck_cuda_slabs_unlock(void);
/* In a child: whoever held the lock is not there. */
void gck_cuda_slabs_forked(void);

/* A new one of so many bytes (of units), mapped and empty. The driver's answer; CUDA_ERROR_NOT_SUPPORTED:
 * there cannot be slabs here, the driver's own memory must do. */
CUresult gck_cuda_slab_new(CUdevice device, uint64_t size, struct gck_cuda_slab **slab);
/* An empty one, unmapped and gone. */
void gck_cuda_slab_drop(struct gck_cuda_slab *slab);

/* The slab with that address, NULL: none. */
struct gck_cuda_slab *gck_cuda_slab_of(uint64_t address);

/* New memory below those that are not mapped, in place of what was. */
CUresult gck_cuda_slabs_renew(struct gck_cuda_renewed *r);

/* Addresses of the slabs' range, for memory of ours that is no slab of the list; 0: there are none. */
uint64_t gck_cuda_region_take(uint64_t size);
void gck_cuda_region_give(uint64_t base);

#endif
