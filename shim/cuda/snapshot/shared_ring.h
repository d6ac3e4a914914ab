/* SPDX-License-Identifier: Apache-2.0
 * A ring of host memory that a process of the agent's has mapped as well: device data go out and
 * in through it. Registering it with driver 580 blocks all launches (0.2 ms for each MiB), so it
 * is done part by part. Unregistering waits for all kernels and blocks launches, so it must wait
 * until the GPU is idle. */
#ifndef GCK_CUDA_SHARED_RING_H
#define GCK_CUDA_SHARED_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/link.h"

#define GCK_CUDA_RING_PART ((uint64_t)GCK_LINK_DATA_MOST)
#define GCK_CUDA_RING_PARTS 64

struct gck_cuda_ring {
	char *at;            /* NULL: none */
	uint64_t size;
	uint64_t registered; /* which parts are registered */
};

/* Map the agent's memfd, which stays the caller's. */
int gck_cuda_ring_map(struct gck_cuda_ring *r, int fd, struct gck_error *err);

/* Whether these bytes are whole pages of the ring. */
bool gck_cuda_ring_has(const struct gck_cuda_ring *r, uint64_t offset, uint64_t size);

/* Register the part of the ring that has the offset, in the current context, for all contexts.
 * *size becomes the bytes that can be copied at once. */
CUresult gck_cuda_ring_use(struct gck_cuda_ring *r, uint64_t offset, uint64_t *size);

/* Unregister it, in the current context, and unmap it. Only with the GPU idle. */
void gck_cuda_ring_end(struct gck_cuda_ring *r);

#endif
