/* SPDX-License-Identifier: Apache-2.0
 * The number of slabs. A new slab's size grows with the total, so that there are few: each costs
 * time at a checkpoint. Empty slabs go back to the driver, except a reserve. Call with the
 * slabs' lock held. */
#ifndef GCK_CUDA_SLAB_SUPPLY_H
#define GCK_CUDA_SLAB_SUPPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* Register what pools keep of a device for later: the reserve is at least that. Called once,
 * before the program's first call. */
void gck_cuda_slabs_reserve_by(uint64_t (*retained)(CUdevice device));

/* Make a slab with space for so many bytes. */
CUresult gck_cuda_slabs_grow(CUdevice device, uint64_t bytes) GCK_MUST_CHECK;

/* Drop empty slabs, except the reserve and what pools keep. */
void gck_cuda_slabs_trim(CUdevice device);

/* Drop all empty slabs, of all devices. True: there were some. */
bool gck_cuda_slabs_drop_empty(void);

#endif
