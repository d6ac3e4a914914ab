/* SPDX-License-Identifier: Apache-2.0
 * Copies between devices and a ring in the background: in order, at the lowest
 * priority, and few at a time, since a program that waits for its context waits for them. Calls
 * come from one thread at a time, in relaxed capture mode, so that the program's captures are
 * not harmed. */
#ifndef GCK_CUDA_COPY_QUEUE_H
#define GCK_CUDA_COPY_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/link.h"

/* A ring of host memory that a process of the agent's has mapped as well: device data go out and
 * in through it. Registering it with driver 580 blocks all launches (0.2 ms for each MiB), so it
 * is done part by part. Unregistering waits for all kernels and blocks launches, so it must wait
 * until the GPU is idle. */

#define GCK_CUDA_RING_PART ((uint64_t)GCK_LINK_DATA_GET_MAX)
#define GCK_CUDA_RING_PARTS 64

struct gck_cuda_ring {
	char *at;            /* NULL: none */
	uint64_t size;
	uint64_t registered; /* which parts are registered */
};

/* Map the agent's memfd, which stays the caller's. */
int gck_cuda_ring_map(struct gck_cuda_ring *r, int fd, struct gck_error *err) GCK_MUST_CHECK;

/* Whether these bytes are whole pages of the ring. */
bool gck_cuda_ring_has(const struct gck_cuda_ring *r, uint64_t offset, uint64_t size);

/* Unregister it, in the current context, and unmap it. Only with the GPU idle. */
void gck_cuda_ring_end(struct gck_cuda_ring *r);

#define GCK_CUDA_QUEUED_COPIES 4

enum gck_cuda_way { GCK_CUDA_OUT, GCK_CUDA_IN };

struct gck_cuda_copy_stream {
	CUdevice device;
	CUcontext context;
	CUstream stream;
	CUevent events[GCK_CUDA_QUEUED_COPIES];
};

struct gck_cuda_copy_queue {
	enum gck_cuda_way way;
	struct gck_cuda_ring *ring;
	struct gck_cuda_copy_stream *streams; /* one for each device */
	size_t nstreams;
	struct gck_cuda_queued_copy {
		CUevent done;        /* NULL: its context has ended */
		const struct gck_cuda_copy_stream *on;
		uint64_t address, size; /* of device memory */
	} under_way[GCK_CUDA_QUEUED_COPIES];
	unsigned first, n;
};

/* Make streams in the shares' contexts. -1: call gck_cuda_copy_queue_end all the same. */
int gck_cuda_copy_queue_begin(struct gck_cuda_copy_queue *m, enum gck_cuda_way way,
			      struct gck_cuda_ring *ring, const struct gck_cuda_snapshot *of,
			      struct gck_error *err) GCK_MUST_CHECK;
/* Wait for the copies under way, then free the queue. */
void gck_cuda_copy_queue_end(struct gck_cuda_copy_queue *m);
/* A context has ended, and its copies with it. */
void gck_cuda_copy_queue_lost(struct gck_cuda_copy_queue *m, CUcontext gone);

/* Forget copies that are done or failed. True: none is under way any more. */
bool gck_cuda_copy_queue_settle(struct gck_cuda_copy_queue *m);
/* Whether a copy from or to these addresses is under way. */
bool gck_cuda_copy_queue_uses(const struct gck_cuda_copy_queue *m, uint64_t address, uint64_t size);

static inline bool gck_cuda_copy_queue_is_full(const struct gck_cuda_copy_queue *m)
{
	return m->n == GCK_CUDA_QUEUED_COPIES;
}

/* Start a copy between device memory, of a device with a share, and an offset of the ring. The
 * queue is not full. *size becomes the bytes that this copy is of. */
CUresult gck_cuda_copy_queue_start(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address,
				   uint64_t offset, uint64_t *size) GCK_MUST_CHECK;

/* Start hashing (hash.h) device memory into the ring. CUDA_ERROR_NOT_SUPPORTED: there is no
 * kernel. */
CUresult gck_cuda_copy_queue_hash(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address,
				  uint64_t size, uint64_t offset) GCK_MUST_CHECK;

/* CUDA_SUCCESS: the oldest copy is done, and forgotten; CUDA_ERROR_NOT_READY: not yet. */
CUresult gck_cuda_copy_queue_poll(struct gck_cuda_copy_queue *m) GCK_MUST_CHECK;

#endif
