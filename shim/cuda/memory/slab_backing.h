/* SPDX-License-Identifier: Apache-2.0
 * The physical memory below a slab, listed or not, and which devices may use it. With the slabs' lock. */
#ifndef GCK_CUDA_SLAB_BACKING_H
#define GCK_CUDA_SLAB_BACKING_H

#include <stdbool.h>

#include "shim/cuda/memory/slab.h"

/* Makes new memory and maps it at the slab's addresses; or does nothing. */
CUresult gck_cuda_slab_provide(struct gck_cuda_slab *slab);

/* The driver forgets the memory, which stays as it is; and has it back (naps: physical.h). */
CUresult gck_cuda_slab_unmap(struct gck_cuda_slab *slab);
CUresult gck_cuda_slab_map(struct gck_cuda_slab *slab, int naps);

/* Device `peer` may use the memory of `device` for good, also that of slabs to come, whatever the program
 * disables later. */
CUresult gck_cuda_slab_allow_for_good(CUdevice device, CUdevice peer);

/* Copies between devices. A copy may name memory of any device, whatever context is current: the driver finds
 * its own by the address. Mapped memory, as slabs are, it refuses to devices that have no access. Gives access
 * to all devices with a context that can have it. False: no device got access since the thread asked last. */
bool gck_cuda_reach(void);

/* A call that copies or fills: repeats it where access may have been missing. */
#define GCK_CUDA_COPY(rc, call) \
	do \
		(rc) = (call); \
	while ((rc) == CUDA_ERROR_INVALID_VALUE && gck_cuda_reach())

#endif
