/* SPDX-License-Identifier: Apache-2.0
 * While a checkpoint is prepared the program does not enqueue ahead: a call that gives a stream
 * work waits until the stream's earlier work is done. So the queue becomes short, and the GPU soon
 * idle once the gate closes, while no thread waits for long. */
#ifndef GCK_CUDA_PACE_H
#define GCK_CUDA_PACE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

extern _Atomic bool gck_cuda_paced;

/* Begin anew if it is on already. */
void gck_cuda_pace_begin(void);
void gck_cuda_pace_end(void);

/* Slow path of gck_cuda_pace. */
void gck_cuda_pace_wait(CUstream stream) __attribute__((cold));

/* Wait for the stream, up to a limit: its work may need this thread, or never end. Inside the
 * gate, which it leaves while that is closed. */
static inline void gck_cuda_pace(CUstream stream)
{
	if (__builtin_expect(atomic_load_explicit(&gck_cuda_paced, memory_order_relaxed), 0))
		gck_cuda_pace_wait(stream);
}

#endif
