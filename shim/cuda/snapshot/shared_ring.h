/* SPDX-License-Identifier: Apache-2.0
 * A ring of host memory that a process of the agent's has mapped, too: the way of device data out and
 * in. Driver 580: registering it holds up all launches for as long as it takes (0.2 ms a MiB), so it is
 * done part by part; its end waits for all kernels and holds up launches meanwhile, so that it must
 * wait until the GPU is idle. */
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
	uint64_t registered; /* which parts are */
};

/* Map a memfd that came from the agent (the descriptor stays the caller's). */
int gck_cuda_ring_map(struct gck_cuda_ring *r, int fd, struct gck_error *err);

/* Are these bytes whole pages of it? */
bool gck_cuda_ring_has(const struct gck_cuda_ring *r, uint64_t offset, uint64_t size);

/* Of so many bytes from there on, how many can be copied at once; they are registered, in the current
 * context, for all. */
CUresult gck_cuda_ring_use(struct gck_cuda_ring *r, uint64_t offset, uint64_t *size);

/* Unregistered, in the current context, and unmapped. Only with the GPU idle. */
void gck_cuda_ring_end(struct gck_cuda_ring *r);

#endif
