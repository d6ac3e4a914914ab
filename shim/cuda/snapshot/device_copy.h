/* SPDX-License-Identifier: Apache-2.0
 * The copy of device memory that stands while the program runs again, for a reader (transfer/).
 * The program can take its memory at any time. One lock protects it: the holder may use the
 * snapshot, its streams and contexts, and must release it before waiting for anything but a few
 * copies, so that threads of the program wait no longer. */
#ifndef GCK_CUDA_DEVICE_COPY_H
#define GCK_CUDA_DEVICE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/gate/context.h"

/* ---- threads of the program, inside the gate ------------------------------------------------ */

/* Implements gck_cuda_reclaim (base/reclaim.h). */
bool gck_cuda_device_copy_yield(CUdevice device, int64_t *late_ns);

/* Bytes of a device that the copy holds, which are as good as free. Call with the slabs' lock
 * held. */
uint64_t gck_cuda_device_copy_bytes(CUdevice device);

/* Around calls that may end contexts: the copy uses none in between. gone: the context that has
 * ended; NULL: none. */
void gck_cuda_device_copy_pause(void);
void gck_cuda_device_copy_go_on(CUcontext gone);

/* ---- the CUDA thread ------------------------------------------------------------------------ */

/* The copy stands. Called before the gate opens; from then on the program may take its memory. */
void gck_cuda_device_copy_begin(void);
/* End it, and tell its reader why. Copies that do not finish within moments go later (tend). For
 * any thread of ours. */
void gck_cuda_device_copy_end(int code, const char *why);
/* In a child: unlock; the copy is the parent's. */
void gck_cuda_device_copy_forked(void);
/* Another rank needs memory of the device: end the copy. True: memory was given back, or may be
 * in a moment. */
bool gck_cuda_device_copy_give(CUdevice device);
#define GCK_CUDA_RECLAIMED_BY_RANK \
	"another rank needed the device memory that held the checkpoint"
/* Free what could not be freed beside the program. With the gate closed and the GPU idle. */
void gck_cuda_device_copy_tidy(const struct gck_cuda_contexts *all);

/* Free what is left of an ended copy: copies that were under way. Returns after how many ms to
 * call again, most_ms at most. */
int gck_cuda_device_copy_tend(int most_ms) GCK_MUST_CHECK;

/* ---- the reader (transfer/data_server.c) ---------------------------------------------------- */

/* Take the lock. NULL: the copy stands no more; why says the reason. */
struct gck_cuda_copy_queue *gck_cuda_device_copy_lock(struct gck_error *why) GCK_MUST_CHECK;
void gck_cuda_device_copy_unlock(void);

/* With the lock held: prepare the copy for reading into ring, a memfd of the agent's. 1: call
 * again, more is to be done; -1: it cannot be read. */
int gck_cuda_device_copy_open(int ring, struct gck_error *err) GCK_MUST_CHECK;

#endif
