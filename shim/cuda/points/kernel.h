/* SPDX-License-Identifier: Apache-2.0
 * Kernels with points: their variable, and the records of their launches. All with the lock of
 * launch.c. */
#ifndef GCK_CUDA_POINTS_KERNEL_H
#define GCK_CUDA_POINTS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

#define GCK_POINTS_PARAMETERS 256
#define GCK_POINTS_SLOTS 8
#define GCK_POINTS_WORDS 3 /* of the variable, that a launch may write */
#define GCK_POINTS_HEAD 16 /* bytes of a block's record before its shared memory */

struct gck_pointed_kernel {
	struct gck_pointed_kernel *next;
	CUcontext context;
	CUdeviceptr variable; /* NAME$ckpt: one for each kernel and context */
	CUmodule module;      /* one of the two */
	CUlibrary library;
	uint64_t record, shared; /* bytes, of a thread and of a block */
	bool saves_dynamic, has_grid; /* has_grid: barriers of the grid */
	bool is_off;          /* it never leaves */
	size_t n_parameters, size[GCK_POINTS_PARAMETERS];
	uint64_t written[GCK_POINTS_WORDS]; /* the variable behind all launches */
	CUdeviceptr records;  /* of n_slots launches */
	size_t slot_size;
	unsigned n_slots, next_slot;
	bool is_used[GCK_POINTS_SLOTS]; /* the records may not be zeros */
	unsigned outstanding;
	CUstream stream;      /* of the outstanding launches */
};

/* The kernel that a function (CUfunction or CUkernel) is in this context. NULL: it has no points.
 * beside: a stream of ours. Captures are not harmed if the thread's capture mode is relaxed. */
struct gck_pointed_kernel *gck_pointed_find(CUfunction function, CUcontext context,
					    CUstream beside);

/* Bytes of the records of a launch. */
uint64_t gck_pointed_size(const struct gck_pointed_kernel *k, uint64_t blocks, uint64_t threads,
			  uint64_t dynamic);

/* Records for a launch of that size; none are outstanding. */
CUresult gck_pointed_reserve(struct gck_pointed_kernel *k, size_t size);

/* Writes the variable in the stream's order, as far as it is another. */
CUresult gck_pointed_write(struct gck_pointed_kernel *k, CUstream stream,
			   const uint64_t words[GCK_POINTS_WORDS]);

/* Forgets the kernels of a module or library; NULL, NULL: those of a context. */
void gck_pointed_forget(CUmodule module, CUlibrary library, CUcontext context);

#endif
