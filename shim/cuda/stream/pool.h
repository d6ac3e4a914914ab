/* SPDX-License-Identifier: Apache-2.0
 * The pools whose memory is on slabs. For each there is a pool of the driver's with its settings,
 * which answers queries; the memory in use is counted here. Call with the lock of
 * ordered_memory.h held. */
#ifndef GCK_CUDA_POOL_H
#define GCK_CUDA_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_pool {
	CUmemoryPool handle;
	CUdevice device;
	bool opportunistic, internal;     /* the kinds of reuse that are allowed */
	uint64_t threshold;               /* for release */
	uint64_t used, used_high;         /* bytes in allocations */
	uint64_t held;                    /* bytes of blocks, allocated or cached */
	uint64_t retained, reserved_high;     /* bytes returned to the slabs, which keep as much in
					   * reserve; held and retained are what the program sees as
					   * reserved */
	uint64_t uses;                    /* blocks, and calls under way */
	bool destroyed;
};

/* NULL: the pool's memory is the driver's. */
struct gck_cuda_pool *gck_cuda_pool_of(CUmemoryPool handle);
struct gck_cuda_pool *gck_cuda_pool_current(CUdevice device);
void gck_cuda_pool_current_changed(void);

/* A pool was created. If there is no memory for the record, its memory is the driver's. */
void gck_cuda_pool_made(CUmemoryPool handle, const CUmemPoolProps *properties);
/* Hide a pool while the driver destroys it; then it is destroyed, and freed with its last block;
 * or the call failed and it shows again. */
void gck_cuda_pool_hide(struct gck_cuda_pool *pool);
void gck_cuda_pool_destroyed(struct gck_cuda_pool *pool);
void gck_cuda_pool_show(struct gck_cuda_pool *pool);

void gck_cuda_pool_use(struct gck_cuda_pool *pool);
void gck_cuda_pool_unuse(struct gck_cuda_pool *pool);

/* A block of so many bytes is added, or returned to the slabs. */
void gck_cuda_pool_gets(struct gck_cuda_pool *pool, uint64_t size);
void gck_cuda_pool_gives(struct gck_cuda_pool *pool, uint64_t size);
/* An allocation in a block begins, or ends. */
void gck_cuda_pool_allocates(struct gck_cuda_pool *pool, uint64_t bytes);
void gck_cuda_pool_frees(struct gck_cuda_pool *pool, uint64_t bytes);

/* Reduce what is retained so that no more than `reserved` bytes are reserved. */
void gck_cuda_pool_keep(struct gck_cuda_pool *pool, uint64_t reserved);
void gck_cuda_pools_keep_nothing(void);

/* Whether something should be returned once the program has waited for the GPU. */
bool gck_cuda_pool_is_large(const struct gck_cuda_pool *pool);

/* What the pools of a device keep. Without the lock. */
uint64_t gck_cuda_pools_retained(CUdevice device);

#endif
