/* SPDX-License-Identifier: Apache-2.0
 * Device memory that the program lacks and gpuckpt holds: copies of a checkpoint (snapshot/),
 * freed stream-ordered memory (stream/), and memory of the node's other ranks. The layers that
 * hold it register here. */
#ifndef GCK_CUDA_RECLAIM_H
#define GCK_CUDA_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_reclaim_table {
	/* Implements gck_cuda_reclaim. */
	bool (*yield)(CUdevice device, int64_t *late_ns);
	/* Implements gck_cuda_reclaim_bytes. */
	uint64_t (*bytes)(CUdevice device);
	/* Implements gck_cuda_reclaim_from_ranks. */
	bool (*from_ranks)(CUdevice device);
};

/* Register the table, which stays the caller's. Called once, before the program's first call. */
void gck_cuda_reclaim_begin(const struct gck_cuda_reclaim_table *table);

/* A call failed for lack of memory on the device (CU_DEVICE_INVALID: the current context's).
 * Returns true if the call is worth another try: memory was given back since the thread last
 * looked, or may come in a moment. For threads of the program, inside the gate. It may wait, so
 * call it without locks; a checkpoint, or a restart of its image, may happen meanwhile. late_ns
 * belongs to the call, 0 at first. */
bool gck_cuda_reclaim(CUdevice device, int64_t *late_ns);

/* Make a call that allocates, and repeat it as long as memory may come. */
#define GCK_CUDA_TRY_ON(rc, device, call) \
	do { \
		int64_t late_ns = 0; \
		do \
			(rc) = (call); \
		while ((rc) == CUDA_ERROR_OUT_OF_MEMORY && gck_cuda_reclaim(device, &late_ns)); \
	} while (0)
#define GCK_CUDA_TRY(rc, call) GCK_CUDA_TRY_ON(rc, CU_DEVICE_INVALID, call)

/* Bytes of a device that copies hold and the program can have. Call with the slabs' lock held. */
uint64_t gck_cuda_reclaim_bytes(CUdevice device);

/* Ask the node's other ranks to give up what they hold of the device (CU_DEVICE_INVALID: the
 * current context's). Returns true if one did. May wait, as gck_cuda_reclaim does. */
bool gck_cuda_reclaim_from_ranks(CUdevice device);

#endif
