/* SPDX-License-Identifier: Apache-2.0
 * The program's device memory on slabs (slab.h). */
#ifndef GCK_CUDA_DEVICE_MEMORY_H
#define GCK_CUDA_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"


/* An allocation as the program knows it. */
struct gck_cuda_allocation {
	uint64_t base, size;
	CUcontext context;
	uint64_t id;
	CUmemoryPool pool; /* of stream-ordered memory (stream/), which is in no context; else
			    * NULL */
};

/* Allocate in the current context. CUDA_ERROR_NOT_SUPPORTED: let the driver allocate. */
CUresult gck_cuda_memory_take(uint64_t bytes, CUdeviceptr *address) GCK_MUST_CHECK;

/* Allocate for an owner that need not be the current context, with bytes rounded by
 * gck_cuda_memory_round. may_grow: make new slabs if needed. */
CUresult gck_cuda_memory_take_on(CUdevice device, CUcontext owner, uint64_t bytes, bool may_grow,
				 struct gck_cuda_allocation *a) GCK_MUST_CHECK;
uint64_t gck_cuda_memory_round(uint64_t bytes);

/* Take it from its context without freeing it. False: another thread has freed it. */
bool gck_cuda_memory_disown(const struct gck_cuda_allocation *a);

/* Free it; not for stream-ordered memory. CUDA_ERROR_INVALID_VALUE: another thread has freed it. */
CUresult gck_cuda_memory_give(const struct gck_cuda_allocation *a);

/* The allocation that has the address, without what stream/ knows of it; false: none. */
bool gck_cuda_memory_find(uint64_t address, struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* Whether the address is on a slab, allocated or not. */
bool gck_cuda_memory_is_ours(uint64_t address);

/* The number of the next allocation of any kind. Never 0. */
uint64_t gck_cuda_memory_id(void);

/* A context has ended: frees what it had on slabs, except allocations newer than `newest`
 * (gck_cuda_memory_newest before the end): another context may have the same handle since. */
uint64_t gck_cuda_memory_newest(void);
void gck_cuda_memory_forget(CUcontext context, uint64_t newest);

/* Bytes of slabs on a device that are not allocated. Call with the slabs' lock held. */
uint64_t gck_cuda_memory_spare(CUdevice device);

#endif
