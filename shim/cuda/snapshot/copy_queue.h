/* SPDX-License-Identifier: Apache-2.0
 * Copies between devices and a ring (ring.h) in the background: in order, a few under way at a time, at
 * the lowest priority. Few, since a program that waits for its context waits for them. Calls come from
 * one thread at a time; captures of the program's are not harmed if that has relaxed mode. */
#ifndef GCK_CUDA_COPY_QUEUE_H
#define GCK_CUDA_COPY_QUEUE_H

#include "shim/cuda/snapshot/shared_ring.h"
#include "shim/cuda/snapshot/snapshot.h"

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
	struct gck_cuda_copy_stream *streams; /* of each device */
	size_t nstreams;
	struct gck_cuda_queued_copy {
		CUevent done;        /* NULL: with its context */
		const struct gck_cuda_copy_stream *on;
		uint64_t address, size; /* of the device */
	} under_way[GCK_CUDA_QUEUED_COPIES];
	unsigned first, n;
};

/* With streams in the shares' contexts. -1: what was made is to be ended. */
int gck_cuda_copy_queue_begin(struct gck_cuda_copy_queue *m, enum gck_cuda_way way, struct gck_cuda_ring *ring,
			 const struct gck_cuda_snapshot *of, struct gck_error *err);
/* Waits for what is under way. */
void gck_cuda_copy_queue_end(struct gck_cuda_copy_queue *m);
/* A context has ended, and what was in it. */
void gck_cuda_copy_queue_lost(struct gck_cuda_copy_queue *m, CUcontext gone);

/* What is done, or failed, is forgotten. True: nothing is under way any more. */
bool gck_cuda_copy_queue_settle(struct gck_cuda_copy_queue *m);
/* Is something under way from or to these addresses? */
bool gck_cuda_copy_queue_uses(const struct gck_cuda_copy_queue *m, uint64_t address, uint64_t size);

static inline bool gck_cuda_copy_queue_is_full(const struct gck_cuda_copy_queue *m)
{
	return m->n == GCK_CUDA_QUEUED_COPIES;
}

/* One more, of a device that has a share, if it is not full: of *size bytes between an address and an
 * offset of the ring; *size becomes how many it is of. */
CUresult gck_cuda_copy_queue_start(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address, uint64_t offset,
			      uint64_t *size);

/* The same for hashes (hash.h) of so many bytes of the device, into the ring. CUDA_ERROR_NOT_SUPPORTED: there
 * are none. */
CUresult gck_cuda_copy_queue_hash(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address, uint64_t size,
			     uint64_t offset);

/* CUDA_SUCCESS: the oldest is done, and forgotten; CUDA_ERROR_NOT_READY: it is not yet. */
CUresult gck_cuda_copy_queue_poll(struct gck_cuda_copy_queue *m);

#endif
