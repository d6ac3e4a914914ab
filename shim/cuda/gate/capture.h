/* SPDX-License-Identifier: Apache-2.0
 * Stream captures under way. Work on such a stream becomes part of a graph, a query of the stream
 * ends its capture, and an event can draw any other stream into it. */
#ifndef GCK_CUDA_CAPTURE_H
#define GCK_CUDA_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

extern _Atomic int gck_cuda_captures; /* an upper limit of their number */

/* Whether a capture is under way. The answer is current for the calling thread's own streams. */
static inline bool gck_cuda_capture_is_on(void)
{
	return atomic_load_explicit(&gck_cuda_captures, memory_order_relaxed) != 0;
}

/* Whether this stream is in a capture, or work on it would become part of one. Asks the driver
 * if any capture is under way. */
bool gck_cuda_capture_has(CUstream stream);

/* True: no capture is under way, and none begins until go_on. False: one may be; do not call
 * go_on. */
bool gck_cuda_capture_pause(void);
void gck_cuda_capture_go_on(void);

/* A stream of the program is about to end, or all streams of a context have ended: their
 * captures end with them. */
void gck_cuda_capture_stream_ends(CUstream stream);
void gck_cuda_capture_forget(CUcontext context);

/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_capture_forked(void);

#endif
