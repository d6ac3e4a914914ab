/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_CUDA_ALLOCATE_H
#define GCK_CUDA_ALLOCATE_H

#include "common/base/error.h"
#include "shim/cuda/memory/device_memory.h"

/* The allocation in device memory that has the address, stream-ordered or not; false: none. */
bool gck_cuda_allocation_find(CUdeviceptr address, struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* Free device memory at once, without waiting for its users. */
CUresult gck_cuda_allocation_give_now(const struct gck_cuda_allocation *a);

/* Whether the address is in memory of ours, managed or not. Then rc says whether an allocation
 * begins there, and a describes it. */
bool gck_cuda_allocation_is_ours(CUdeviceptr address, struct gck_cuda_allocation *a, CUresult *rc)
	GCK_MUST_CHECK;

/* Free it once the context has finished its work. */
CUresult gck_cuda_allocation_give(const struct gck_cuda_allocation *a, CUcontext context)
	GCK_MUST_CHECK;

#endif
