/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory on slabs. A stream can reuse at once what was freed in its order, with no
 * more than a lock held for a moment. Other streams can once it has passed the free, which is
 * queried only when the slabs have nothing else, before they grow. */
#ifndef GCK_CUDA_ORDERED_MEMORY_H
#define GCK_CUDA_ORDERED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/memory/device_memory.h"

/* The lock of this folder. Never wait for anything while holding it. */
void gck_cuda_ordered_lock(void);
void gck_cuda_ordered_unlock(void);

/* ---- threads of the program's, inside the gate ---------------------------------------------- */

/* Allocate. `stream` is in no capture; default streams as CU_STREAM_LEGACY and
 * CU_STREAM_PER_THREAD. pool NULL: the current pool of the stream's device.
 * CUDA_ERROR_NOT_SUPPORTED: let the driver allocate. */
CUresult gck_cuda_ordered_take(CUmemoryPool pool, CUstream stream, uint64_t bytes,
			       CUdeviceptr *address) GCK_MUST_CHECK;

/* Free it in the stream's order. CUDA_ERROR_NOT_FOUND: it is no stream-ordered memory, or this
 * stream could not reuse it: free it as other memory once the stream has come so far. */
CUresult gck_cuda_ordered_free(CUdeviceptr address, CUstream stream) GCK_MUST_CHECK;

/* Free it at once, without waiting for its users. */
CUresult gck_cuda_ordered_give(const struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* Free memory that is no pool's once the context has finished its present work, which is queried
 * when no capture is under way. CUDA_ERROR_NOT_SUPPORTED: it cannot be deferred. */
CUresult gck_cuda_ordered_give_later(const struct gck_cuda_allocation *a, CUcontext context)
	GCK_MUST_CHECK;

/* Complete a, found by gck_cuda_memory_find, if it is stream-ordered. False: it is freed, or the
 * address is behind its end. */
bool gck_cuda_ordered_look(uint64_t address, struct gck_cuda_allocation *a) GCK_MUST_CHECK;

/* ---- between ordered_memory.c and collect.c: blocks that no stream's cache has -------------- */

struct gck_cuda_ordered;

/* With the lock held: remove them from their pools. */
void gck_cuda_ordered_unlist(struct gck_cuda_ordered *list);
/* Then, without it: return them to the slabs. */
void gck_cuda_ordered_return(struct gck_cuda_ordered *list);

/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_ordered_forked(void);

#endif
