/* SPDX-License-Identifier: Apache-2.0
 * The physical memory below a slab, listed or not, and which devices may use it. Call with the
 * slabs' lock held. */
#ifndef GCK_CUDA_SLAB_BACKING_H
#define GCK_CUDA_SLAB_BACKING_H

#include <stdbool.h>

#include "common/base/error.h"
#include "shim/cuda/memory/slab.h"

/* Make new memory and map it at the slab's addresses. On failure nothing has changed. */
CUresult gck_cuda_slab_provide(struct gck_cuda_slab *slab) GCK_MUST_CHECK;

/* Make the driver forget the memory, and map it again (naps: retry.h). */
CUresult gck_cuda_slab_unmap(struct gck_cuda_slab *slab);
CUresult gck_cuda_slab_map(struct gck_cuda_slab *slab, int naps) GCK_MUST_CHECK;

/* Allow device `peer` to use the memory of `device` for good, also of future slabs, whatever the
 * program disables later. */
CUresult gck_cuda_slab_allow_for_good(CUdevice device, CUdevice peer) GCK_MUST_CHECK;

/* Give all devices with a context access to each other's slabs, where possible. A copy may name
 * memory of any device, whatever context is current, but mapped memory, as slabs are, only if
 * its device has access. False: no device got access since the thread last asked. Takes the
 * slabs' lock. */
bool gck_cuda_reach(void);

/* Make a call that copies or fills, and repeat it where access may have been missing. */
#define GCK_CUDA_COPY(rc, call) \
	do \
		(rc) = (call); \
	while ((rc) == CUDA_ERROR_INVALID_VALUE && gck_cuda_reach())

#endif
