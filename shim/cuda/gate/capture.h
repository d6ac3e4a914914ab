/* SPDX-License-Identifier: Apache-2.0
 * Stream captures under way. What such a stream is given becomes part of a graph, a question about it
 * ends its capture, and any other stream may come into it by an event. */
#ifndef GCK_CUDA_CAPTURE_H
#define GCK_CUDA_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

extern _Atomic int gck_cuda_captures; /* how many there may be */

/* Is there one at all? Of the calling thread's own streams no answer is old. */
static inline bool gck_cuda_capture_is_on(void)
{
	return atomic_load_explicit(&gck_cuda_captures, memory_order_relaxed) != 0;
}

/* Is this stream in one, or would what it is given become part of one? Asks the driver, if there is any. */
bool gck_cuda_capture_has(CUstream stream);

/* True: there is none, and none begins until go_on. False: there may be one, no go_on. */
bool gck_cuda_capture_pause(void);
void gck_cuda_capture_go_on(void);

/* A stream of the program's is about to end, or all of a context have: their captures end with them. */
void gck_cuda_capture_stream_ends(CUstream stream);
void gck_cuda_capture_forget(CUcontext context);

/* In a child: whoever held the lock is not there. */
void gck_cuda_capture_forked(void);

#endif
