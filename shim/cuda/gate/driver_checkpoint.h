/* SPDX-License-Identifier: Apache-2.0
 * The driver's own checkpoint of this process. */
#ifndef GCK_CUDA_DRIVER_CHECKPOINT_H
#define GCK_CUDA_DRIVER_CHECKPOINT_H

#include <stdint.h>

#include "common/base/error.h"

/* Note in gck_cuda_state which devices this process sees. After cuInit. */
void gck_cuda_devices_note(void);

/* Lock and checkpoint the process, by end_ns: it then holds no GPU. -1: it is unlocked again. */
int gck_cuda_driver_down(int64_t end_ns, struct gck_error *err) GCK_MUST_CHECK;

/* Restore the process, on the devices that gck_cuda_state.onto names, and unlock it. -1: the GPU
 * is lost. */
int gck_cuda_driver_up(struct gck_error *err) GCK_MUST_CHECK;

/* Wait until the GPU has finished all work, by end_ns: locks the process and unlocks it. */
int gck_cuda_driver_wait(int64_t end_ns, struct gck_error *err) GCK_MUST_CHECK;

/* Why the driver cannot checkpoint this process; NULL: it can. */
const char *gck_cuda_driver_unable(void);

#endif
