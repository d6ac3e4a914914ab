/* SPDX-License-Identifier: Apache-2.0
 * The pools whose memory is on slabs. Each is a pool of the driver's, which has its settings and gives the
 * answers; what is in use is counted here. All of it with the lock of ordered.h. */
#ifndef GCK_CUDA_POOL_H
#define GCK_CUDA_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_pool {
	CUmemoryPool handle;
	CUdevice device;
	bool opportunistic, internal;     /* which reuse is allowed */
	uint64_t threshold;               /* of release */
	uint64_t used, used_high;         /* bytes that allocations have */
	uint64_t held;                    /* bytes of pieces, with those that wait in caches */
	uint64_t kept, reserved_high;     /* given back to the slabs, which keep as much: held and kept are reserved */
	uint64_t uses;                    /* pieces, and calls under way */
	bool destroyed;
};

/* NULL: its memory is the driver's. */
struct gck_cuda_pool *gck_cuda_pool_of(CUmemoryPool handle);
struct gck_cuda_pool *gck_cuda_pool_current(CUdevice device);
void gck_cuda_pool_current_changed(void);

/* One that was made; one without memory for it is the driver's. */
void gck_cuda_pool_made(CUmemoryPool handle, const CUmemPoolProps *properties);
/* While it is being destroyed its handle means nothing; then it goes, with its last piece; or it does not. */
void gck_cuda_pool_hide(struct gck_cuda_pool *pool);
void gck_cuda_pool_destroyed(struct gck_cuda_pool *pool);
void gck_cuda_pool_show(struct gck_cuda_pool *pool);

void gck_cuda_pool_use(struct gck_cuda_pool *pool);
void gck_cuda_pool_unuse(struct gck_cuda_pool *pool);

/* A piece of so many bytes comes, or goes back to the slabs. */
void gck_cuda_pool_gets(struct gck_cuda_pool *pool, uint64_t size);
void gck_cuda_pool_gives(struct gck_cuda_pool *pool, uint64_t size);
/* An allocation in a piece begins, or ends. */
void gck_cuda_pool_allocates(struct gck_cuda_pool *pool, uint64_t bytes);
void gck_cuda_pool_frees(struct gck_cuda_pool *pool, uint64_t bytes);

/* Keep no more than makes it so large. */
void gck_cuda_pool_keep(struct gck_cuda_pool *pool, uint64_t reserved);
void gck_cuda_pools_keep_nothing(void);

/* Once the program has waited for the GPU, is anything to be given back? */
bool gck_cuda_pool_is_large(const struct gck_cuda_pool *pool);

/* Without the lock: what the pools of a device keep. */
uint64_t gck_cuda_pools_kept(CUdevice device);

#endif
