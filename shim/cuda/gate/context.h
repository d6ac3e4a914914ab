/* SPDX-License-Identifier: Apache-2.0
 * The program's contexts. */
#ifndef GCK_CUDA_CONTEXT_H
#define GCK_CUDA_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* What upper layers do when the program ends contexts and streams. */
struct gck_cuda_context_ends {
	/* A number that is not less than that of any allocation so far. */
	uint64_t (*newest)(void);
	/* Called around the driver's call: upper layers use no context in between. gone: the
	 * context that has ended; NULL: none. */
	void (*pause)(void);
	void (*go_on)(CUcontext gone);
	/* A context has ended, and all that was in it up to that number. */
	void (*context)(CUcontext gone, uint64_t newest);
	/* A stream is about to end. */
	void (*stream)(CUstream stream);
};

/* Register the table, which stays the caller's. Called once, before the program's first call. */
void gck_cuda_contexts_begin(const struct gck_cuda_context_ends *table);

/* All live contexts. For the CUDA thread, with the gate closed from take to give. Primary
 * contexts are retained in between. */
struct gck_cuda_contexts {
	struct gck_cuda_context {
		CUcontext context;
		CUdevice device;
		int primary; /* 1: it is the device's primary context */
	} *v;
	size_t n;
};

int gck_cuda_contexts_take(struct gck_cuda_contexts *all, struct gck_error *err) GCK_MUST_CHECK;
void gck_cuda_contexts_give(struct gck_cuda_contexts *all);

CUresult gck_cuda_device_of(CUcontext context, CUdevice *device) GCK_MUST_CHECK;

/* Called by stream.c: a stream is about to end. */
void gck_cuda_context_stream_ends(CUstream stream);

/* Set err to, say, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY". Always returns -1. */
int gck_cuda_fail(struct gck_error *err, const char *function, CUresult rc);
/* The same where others may have taken the device's memory. device: -1: any of this process. */
int gck_cuda_fail_memory(struct gck_error *err, const char *what, CUdevice device, CUresult rc);
const char *gck_cuda_error_name(CUresult rc);

#endif
