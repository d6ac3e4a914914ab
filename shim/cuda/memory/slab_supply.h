/* SPDX-License-Identifier: Apache-2.0
 * How many slabs there are. A new one grows with what there is, so that there are few, since each has its price at
 * a checkpoint; one that is empty goes back to the driver, but for a reserve. With the slabs' lock. */
#ifndef GCK_CUDA_SLAB_SUPPLY_H
#define GCK_CUDA_SLAB_SUPPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

/* Pools keep freed memory for later: the reserve is at least what `kept` says of a device. Called once,
 * before the program's first call. */
void gck_cuda_slabs_reserve_by(uint64_t (*kept)(CUdevice device));

/* One more, with room for so many bytes. */
CUresult gck_cuda_slabs_grow(CUdevice device, uint64_t bytes);

/* Those that are empty go, but for the reserve and what pools keep (pools.h). */
void gck_cuda_slabs_trim(CUdevice device);

/* All that are empty, of all devices. True: there were some. */
bool gck_cuda_slabs_drop_empty(void);

#endif
