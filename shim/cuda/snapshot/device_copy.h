/* SPDX-License-Identifier: Apache-2.0
 * A snapshot that stands on devices while the program runs again, for somebody who reads it
 * (serve_data.h). The program can have its memory at any time. One lock: whoever holds it may use the
 * snapshot, its streams and its contexts, and gives it back before he waits for anything but a few
 * copies, so that a thread of the program's never waits for longer. */
#ifndef GCK_CUDA_DEVICE_COPY_H
#define GCK_CUDA_DEVICE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/gate/context.h"

/* ---- threads of the program's, inside the gate ---------------------------------------------- */

/* A call failed for lack of memory: gck_cuda_reclaim (reclaim.h). */
bool gck_cuda_device_copy_yield(CUdevice device, int64_t *late_ns);

/* Bytes of a device that a snapshot has: as good as free. With the slabs' lock. */
uint64_t gck_cuda_device_copy_bytes(CUdevice device);

/* Around calls that may end contexts: nothing is done in any of them in between. gone: the one that has
 * ended, NULL: none has. */
void gck_cuda_device_copy_pause(void);
void gck_cuda_device_copy_go_on(CUcontext gone);

/* ---- the CUDA thread ------------------------------------------------------------------------ */

/* The gate is about to open: the program may take the snapshot's memory. */
void gck_cuda_device_copy_begin(void);
/* It goes, but for what is under way and does not end within moments, which goes later
 * (tend). Whoever reads it is told why. In whichever thread of ours. */
void gck_cuda_device_copy_end(int code, const char *why);
/* In a child: the lock's holder is not there, and the snapshot is the parent's. */
void gck_cuda_device_copy_forked(void);
/* Another rank needs the memory of a device: it goes. True: something was given back, or may be in a moment. */
bool gck_cuda_device_copy_give(CUdevice device);
#define GCK_CUDA_RECLAIMED_BY_RANK "another rank needed the device memory that the checkpoint stood in"
/* With the gate closed and the GPU idle: what could not be given back beside the program. */
void gck_cuda_device_copy_tidy(const struct gck_cuda_contexts *all);

/* What has ended and is still there goes: what was in use; what is seen through windows (window.h), in a short stop of
 * the program's; else another time, or with the next drain. To be called again after so many ms, at most most_ms. */
int gck_cuda_device_copy_tend(int most_ms);

/* ---- whoever reads it (serve_data.c) -------------------------------------------------------- */

/* Takes the lock; NULL: it stands no more, and why says so. */
struct gck_cuda_copy_queue *gck_cuda_device_copy_lock(struct gck_error *why);
void gck_cuda_device_copy_unlock(void);

/* With the lock: a memfd of the agent's to copy into; 1: to be called again, there is more to be done; -1:
 * it cannot be read. */
int gck_cuda_device_copy_open(int ring, struct gck_error *err);

#endif
