/* SPDX-License-Identifier: Apache-2.0
 * The program's contexts and streams. */
#ifndef GCK_CUDA_CONTEXT_H
#define GCK_CUDA_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* What layers above do when the program ends contexts and streams. They end with their functions called. */
struct gck_cuda_context_ends {
	/* A number: what a context that ends next has, has none that is newer. */
	uint64_t (*newest)(void);
	/* Around the driver's call: nothing is done in any context in between. gone: the one that has ended,
	 * NULL: none has. */
	void (*pause)(void);
	void (*go_on)(CUcontext gone);
	/* It has ended, and what was in it up to that number. */
	void (*context)(CUcontext gone, uint64_t newest);
	/* This stream is about to end. */
	void (*stream)(CUstream stream);
};

/* The table stays the caller's. Called once, before the program's first call. */
void gck_cuda_contexts_begin(const struct gck_cuda_context_ends *table);

/* All contexts that live, for the CUDA thread, with the gate closed; give them back with the gate
 * still closed. Primary contexts are retained meanwhile. */
struct gck_cuda_contexts {
	struct gck_cuda_context {
		CUcontext context;
		CUdevice device;
		int primary; /* 1: the device's primary context */
	} *v;
	size_t n;
};

int gck_cuda_contexts_take(struct gck_cuda_contexts *all, struct gck_error *err);
void gck_cuda_contexts_give(struct gck_cuda_contexts *all);

CUresult gck_cuda_device_of(CUcontext context, CUdevice *device);

/* One is about to end: what the table says. */
void gck_cuda_context_stream_ends(CUstream stream);

/* "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY": always -1. */
int gck_cuda_fail(struct gck_error *err, const char *function, CUresult rc);
/* The same where others may have taken the device's memory. device: -1: any of them. */
int gck_cuda_fail_memory(struct gck_error *err, const char *what, CUdevice device, CUresult rc);
const char *gck_cuda_error_name(CUresult rc);

#endif
