/* SPDX-License-Identifier: Apache-2.0
 * The devices that this process sees, and those on which they come back after a restart. */
#ifndef GCK_CUDA_DEVICE_PAIRS_H
#define GCK_CUDA_DEVICE_PAIRS_H

#include "shim/cuda/base/cuda_api.h"

/* After cuInit: what an image says of them. */
void gck_cuda_devices_note(void);

/* What the restorer wants (gck_cuda_state.onto) as the driver's pairs: NULL if all stay where they were.
 * The CUDA thread's. */
CUcheckpointRestoreArgs *gck_cuda_devices_pairs(void);

/* It is done. */
void gck_cuda_devices_moved(void);

#endif
