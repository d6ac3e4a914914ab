/* SPDX-License-Identifier: Apache-2.0
 * How much of a snapshot finds room on its device. */
#ifndef GCK_CUDA_FREE_BYTES_H
#define GCK_CUDA_FREE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

/* May a snapshot be kept on the device? Not where it could neither be had back (physical.h) nor seen (window.h). */
bool gck_cuda_can_hold_copy(CUdevice device);

/* Bytes of the current context's device, this one, that a snapshot may take: what is free but for a reserve. */
uint64_t gck_cuda_free_bytes(CUdevice device);

/* The same of a restored process, in a context of the device that it has. */
void gck_cuda_free_bytes_update(CUdevice device);

/* What is drained of a device has become so many bytes more or less: what gck_cuda_state says of its memory is
 * brought up to date, best in a context of that device. With the slabs' lock. */
void gck_cuda_free_bytes_changed(CUdevice device, int64_t bytes);
/* The same of what the driver carries: it goes to host memory always. */
void gck_cuda_free_bytes_carried(int64_t bytes);

#endif
