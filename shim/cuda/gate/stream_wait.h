/* SPDX-License-Identifier: Apache-2.0
 * Streams of our own within a drain: copies on them may be held up by what other processes have on the device,
 * where these share it (MPS). */
#ifndef GCK_CUDA_STREAM_WAIT_H
#define GCK_CUDA_STREAM_WAIT_H

#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* The drain that is under way: called when a stream is still busy at the drain's limit, before the wait
 * for it goes on. By any thread. */
void gck_cuda_arrive_tells(void (*late)(const struct gck_error *why));

/* Waits until a stream of that device has done what it was given; its context is current. end_ns: a drain's limit,
 * 0: none. Beyond it this fails, and whoever asked for the drain is told at once, but it does not return before the
 * stream is done: what that still reads and writes may not go. In any thread. */
int gck_cuda_arrive(CUstream stream, CUdevice device, int64_t end_ns, struct gck_error *err);

#endif
