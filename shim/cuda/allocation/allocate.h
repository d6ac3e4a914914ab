/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_CUDA_ALLOCATE_H
#define GCK_CUDA_ALLOCATE_H

#include "shim/cuda/memory/device_memory.h"

/* The allocation in device memory of ours that has the address, in stream order or not; false: none has. */
bool gck_cuda_allocation_find(CUdeviceptr address, struct gck_cuda_allocation *a);

/* Free device memory at once, whatever may use it. */
CUresult gck_cuda_allocation_give_now(const struct gck_cuda_allocation *a);

/* Is the address in memory of ours, managed memory too? Then rc says whether an allocation, which a becomes, begins
 * there. */
bool gck_cuda_allocation_is_ours(CUdeviceptr address, struct gck_cuda_allocation *a, CUresult *rc);

/* Free it once what the context was given to do is done. */
CUresult gck_cuda_allocation_give(const struct gck_cuda_allocation *a, CUcontext context);

#endif
