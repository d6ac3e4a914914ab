/* SPDX-License-Identifier: Apache-2.0
 * The streams that the program made, each with its context. */
#ifndef GCK_CUDA_STREAM_H
#define GCK_CUDA_STREAM_H

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* Visit the streams of a context until one visit returns not 0. Returns that. */
int gck_cuda_streams_each(CUcontext context, int (*visit)(CUstream stream, void *arg), void *arg)
	GCK_MUST_CHECK;

/* The context of a stream; NULL: it is not listed. */
CUcontext gck_cuda_stream_home(CUstream stream);

/* Remove all streams of a context that has ended. */
void gck_cuda_streams_forget(CUcontext context);

#endif
