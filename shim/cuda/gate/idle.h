/* SPDX-License-Identifier: Apache-2.0
 * Brings the process to a point where no CUDA call is under way and the GPU is idle. */
#ifndef GCK_CUDA_IDLE_H
#define GCK_CUDA_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/gate/context.h"

/* Close the gate and wait until the GPU is idle. An attempt is given up after 100 ms, then 400
 * ms, then 1.6 s, with the gate open for as long in between, and none goes beyond end_ns. 0: the
 * gate is closed, no thread is inside and all contexts are idle; all lists them, to be given
 * back before the gate opens. -1: the gate is open, and err names the thread and its function,
 * or the stream, that did not finish. In the CUDA thread. */
int gck_cuda_quiesce(int64_t end_ns, struct gck_cuda_contexts *all, struct gck_error *err)
	GCK_MUST_CHECK;

/* Look whether what was queued when the backlog began (backlog.h) is done, in a moment with the
 * gate closed, until end_ns at the latest. *seen: whether that is known; else a thread did not
 * leave its call. In the CUDA thread. */
bool gck_cuda_queue_done(int64_t end_ns, bool *seen) GCK_MUST_CHECK;

/* Wait until a context has finished its work, without a limit. For a thread of the program,
 * inside the gate. CUDA_ERROR_NOT_READY: a capture is under way; nothing was queried. */
CUresult gck_cuda_wait_context(CUcontext context) GCK_MUST_CHECK;
/* The same while a capture is under way, which is not harmed: only for streams that are known
 * and in no capture. */
CUresult gck_cuda_wait_streams(CUcontext context) GCK_MUST_CHECK;

/* Whether a stream of the current context has work. A query could end a capture, so nothing is
 * asked during one: false. */
bool gck_cuda_is_busy(CUstream stream);

int64_t gck_cuda_now_ns(void); /* CLOCK_MONOTONIC */

/* Register the drain under way: `late` is called, by any thread, when a stream is still busy at
 * the drain's limit, before the wait for it goes on. */
void gck_cuda_stream_wait_tells(void (*late)(const struct gck_error *why));

/* Wait until a stream of that device has finished its work; its context is current. end_ns: the
 * drain's limit, 0: none. After the limit this reports the delay at once, but it returns, with
 * an error, only when the stream is idle, since its buffers must stay until then. In any thread. */
int gck_cuda_stream_wait(CUstream stream, CUdevice device, int64_t end_ns, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
