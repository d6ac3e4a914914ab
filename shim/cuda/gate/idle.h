/* SPDX-License-Identifier: Apache-2.0
 * Bringing the process to where no call of CUDA's is under way and the GPU has nothing to do. */
#ifndef GCK_CUDA_IDLE_H
#define GCK_CUDA_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/gate/context.h"

/* Closes the gate: an attempt that is given up after 100 ms, then 400 ms, then 1.6 s, with the gate
 * open for as long in between, and none beyond end_ns. 0: it is closed, nobody is inside and all
 * contexts are idle; all has them, to be given back while it is still closed. -1: it is open, and err
 * names the thread and its function, or the stream, that had not come to its end. Never waits for the
 * GPU without a limit. In the CUDA thread. */
int gck_cuda_quiesce(int64_t end_ns, struct gck_cuda_contexts *all, struct gck_error *err);

/* What a context was given to do is done. For a thread of the program's, inside the gate; without a
 * limit. CUDA_ERROR_NOT_READY: a capture is under way, and nothing was asked or awaited. */
CUresult gck_cuda_wait_context(CUcontext context);
/* Beside a capture, which is not harmed: the same of those streams alone that are known and in none. */
CUresult gck_cuda_wait_streams(CUcontext context);

int64_t gck_cuda_now_ns(void); /* CLOCK_MONOTONIC */

/* The drain that is under way: called when a stream is still busy at the drain's limit, before the wait
 * for it goes on. By any thread. */
void gck_cuda_stream_wait_tells(void (*late)(const struct gck_error *why));

/* Waits until a stream of that device has done what it was given; its context is current. end_ns: a drain's limit,
 * 0: none. Beyond it this fails, and whoever asked for the drain is told at once, but it does not return before the
 * stream is done: what that still reads and writes may not go. In any thread. */
int gck_cuda_stream_wait(CUstream stream, CUdevice device, int64_t end_ns, struct gck_error *err);

#endif
