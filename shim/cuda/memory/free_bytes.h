/* SPDX-License-Identifier: Apache-2.0
 * How much of a snapshot fits on its device. */
#ifndef GCK_CUDA_FREE_BYTES_H
#define GCK_CUDA_FREE_BYTES_H

#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

/* Bytes of the current context's device that a snapshot may take: the free bytes less a reserve;
 * 0 if its memory could not be recalled (physical.h). */
uint64_t gck_cuda_free_bytes(void);

/* Update the estimate in a restored process, in a context of the device. */
void gck_cuda_free_bytes_update(CUdevice device);

/* Memory of the device that a drain copies has grown by `bytes` (or shrunk): updates
 * gck_cuda_state, best in a context of that device. Call with the slabs' lock held. */
void gck_cuda_free_bytes_changed(CUdevice device, int64_t bytes);
/* The same for memory that the driver saves, always to host memory. */
void gck_cuda_free_bytes_carried(int64_t bytes);

#endif
