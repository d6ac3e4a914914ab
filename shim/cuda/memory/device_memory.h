/* SPDX-License-Identifier: Apache-2.0
 * The program's device memory, on slabs of our own (slab.h). */
#ifndef GCK_CUDA_DEVICE_MEMORY_H
#define GCK_CUDA_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"


/* An allocation as the program knows it. */
struct gck_cuda_allocation {
	uint64_t base, size;
	CUcontext context;
	uint64_t id;
	CUmemoryPool pool; /* it is stream-ordered memory (ordered.h), and in no context; NULL: it is not */
};

/* A new one in the current context. CUDA_ERROR_NOT_SUPPORTED: the driver's own memory must do. */
CUresult gck_cuda_memory_take(uint64_t bytes, CUdeviceptr *address);

/* Memory as large as its piece (gck_cuda_memory_round), for an owner that is not the current context, in the slabs that
 * there are or in new ones. */
CUresult gck_cuda_memory_take_on(CUdevice device, CUcontext owner, uint64_t bytes, bool may_grow,
				 struct gck_cuda_allocation *a);
uint64_t gck_cuda_memory_round(uint64_t bytes);

/* It is no allocation of its context's any more, but still taken; false: somebody has freed it. */
bool gck_cuda_memory_disown(const struct gck_cuda_allocation *a);

/* Free it, which is no stream-ordered memory. CUDA_ERROR_INVALID_VALUE: somebody has. */
CUresult gck_cuda_memory_give(const struct gck_cuda_allocation *a);

/* The one with that address, which ordered_memory.h may know more of; false: it is in none. */
bool gck_cuda_memory_find(uint64_t address, struct gck_cuda_allocation *a);

/* Does the address belong to our memory, be it allocated or not? */
bool gck_cuda_memory_is_ours(uint64_t address);

/* The next allocation's number, for memory that is not on slabs, too. Never 0. */
uint64_t gck_cuda_memory_id(void);

/* A context is gone, and what lay in it on slabs: all that is not newer than what gck_cuda_memory_newest said
 * before it went. Another one may have been given the same handle since. */
uint64_t gck_cuda_memory_newest(void);
void gck_cuda_memory_forget(CUcontext context, uint64_t newest);

/* Bytes of slabs on a device that no allocation has. With the slabs' lock. */
uint64_t gck_cuda_memory_spare(CUdevice device);

#endif
