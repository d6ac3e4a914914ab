/* SPDX-License-Identifier: Apache-2.0
 * Device memory that the program lacks and gpuckpt holds: copies of a checkpoint (snapshot/), freed
 * stream-ordered memory (stream/), and what other ranks of the node hold. The layers that hold it
 * register here. */
#ifndef GCK_CUDA_RECLAIM_H
#define GCK_CUDA_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_reclaim_table {
	/* gck_cuda_reclaim. */
	bool (*yield)(CUdevice device, int64_t *late_ns);
	/* gck_cuda_reclaim_bytes. */
	uint64_t (*bytes)(CUdevice device);
	/* gck_cuda_reclaim_from_ranks. */
	bool (*from_ranks)(CUdevice device);
};

/* The table stays the caller's. Called once, before the program's first call. */
void gck_cuda_reclaim_begin(const struct gck_cuda_reclaim_table *table);

/* A call failed for lack of memory on that device, CU_DEVICE_INVALID: on the current context's. True:
 * the call is worth another try, since memory was given back after the thread's last look, or may come
 * in a moment. For a thread of the program's, inside the gate. It may wait: call it without locks. A
 * checkpoint, or a restart of its image, may come meanwhile. late_ns is the call's, 0 at first. */
bool gck_cuda_reclaim(CUdevice device, int64_t *late_ns);

/* A call that allocates: repeats it as long as memory may come. */
#define GCK_CUDA_TRY_ON(rc, device, call) \
	do { \
		int64_t late_ns = 0; \
		do \
			(rc) = (call); \
		while ((rc) == CUDA_ERROR_OUT_OF_MEMORY && gck_cuda_reclaim(device, &late_ns)); \
	} while (0)
#define GCK_CUDA_TRY(rc, call) GCK_CUDA_TRY_ON(rc, CU_DEVICE_INVALID, call)

/* Bytes of a device that copies hold: the program can have them. With the slabs' lock. */
uint64_t gck_cuda_reclaim_bytes(CUdevice device);

/* Asks the node's other ranks to give up what they hold of the device, CU_DEVICE_INVALID: the current
 * context's. True: one has. As gck_cuda_reclaim it may wait. */
bool gck_cuda_reclaim_from_ranks(CUdevice device);

#endif
