/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory on slabs. A stream has at once what was freed in its order, with no more than a lock
 * held for a moment. Another stream may have it when the stream has come so far: that is asked when the slabs
 * have nothing else, before they grow. */
#ifndef GCK_CUDA_ORDERED_MEMORY_H
#define GCK_CUDA_ORDERED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/memory/device_memory.h"

/* For pools.h, and for all that is below. Nothing is waited for with it. */
void gck_cuda_ordered_lock(void);
void gck_cuda_ordered_unlock(void);

/* ---- threads of the program's, inside the gate ---------------------------------------------- */

/* `stream` is none in capture; default streams as CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. pool NULL: the
 * current one of the stream's device. CUDA_ERROR_NOT_SUPPORTED: the driver's own must do. */
CUresult gck_cuda_ordered_take(CUmemoryPool pool, CUstream stream, uint64_t bytes, CUdeviceptr *address);

/* In the stream's order. CUDA_ERROR_NOT_FOUND: it is no such memory, or none that this stream could have again:
 * once the stream has come so far, it can be freed as any other. */
CUresult gck_cuda_ordered_free(CUdeviceptr address, CUstream stream);

/* At once, whatever may use it. */
CUresult gck_cuda_ordered_give(const struct gck_cuda_allocation *a);

/* Memory of no pool's: once the context has done what it was given so far, which is looked for when no capture is
 * under way. CUDA_ERROR_NOT_SUPPORTED: it cannot wait here. */
CUresult gck_cuda_ordered_give_later(const struct gck_cuda_allocation *a, CUcontext context);

/* Of memory that is taken (memory.h): in stream order? Then what is known of it; false: it is freed, or the address
 * is behind its end. */
bool gck_cuda_ordered_look(uint64_t address, struct gck_cuda_allocation *a);

/* ---- between ordered_memory.c and collect.c: pieces that no stream has ----------------------- */

struct gck_cuda_ordered;

/* With the lock: they are no pool's any more. */
void gck_cuda_ordered_unlist(struct gck_cuda_ordered *list);
/* Then, without it: they go back to the slabs. */
void gck_cuda_ordered_return(struct gck_cuda_ordered *list);

/* In a child: whoever held the lock is not there. */
void gck_cuda_ordered_forked(void);

#endif
