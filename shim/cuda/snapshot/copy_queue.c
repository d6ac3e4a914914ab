/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/snapshot/copy_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/real.h"
#include "shim/cuda/snapshot/hash.h"

/* ---- the ring ------------------------------------------------------------------------------- */

#define PAGE 4096

/* A ring that shrinks would kill the rank by SIGBUS. A child by fork must not share it. */
int gck_cuda_ring_map(struct gck_cuda_ring *r, int fd, struct gck_error *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size <= 0 ||
	    (uint64_t)st.st_size % GCK_CUDA_RING_PART ||
	    (uint64_t)st.st_size / GCK_CUDA_RING_PART > GCK_CUDA_RING_PARTS)
		return gck_fail(err, EPROTO,
				"the agent's memory for device data is no sealed memfd of a "
				"multiple of %llu bytes",
				(unsigned long long)GCK_CUDA_RING_PART);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return gck_fail(err, errno, "mapping the memory for device data: %s",
				strerror(errno));
	madvise(at, (size_t)st.st_size, MADV_DONTFORK);
	*r = (struct gck_cuda_ring){.at = at, .size = (uint64_t)st.st_size};
	return 0;
}

bool gck_cuda_ring_has(const struct gck_cuda_ring *r, uint64_t offset, uint64_t size)
{
	return offset % PAGE == 0 && size && size <= r->size && offset <= r->size - size;
}

/* Register the part of the ring that has the offset, in the current context, for all contexts.
 * *size becomes the bytes that can be copied at once. */
static CUresult ring_use(struct gck_cuda_ring *r, uint64_t offset, uint64_t *size)
{
	uint64_t part = offset / GCK_CUDA_RING_PART,
		 left = (part + 1) * GCK_CUDA_RING_PART - offset;
	CUresult rc = CUDA_SUCCESS;

	if (!(r->registered >> part & 1))
		rc = gck_cuda_real.cuMemHostRegister_v2(r->at + part * GCK_CUDA_RING_PART,
				GCK_CUDA_RING_PART, CU_MEMHOSTREGISTER_PORTABLE);
	if (rc)
		return rc;
	r->registered |= 1ull << part;
	*size = *size < left ? *size : left;
	return CUDA_SUCCESS;
}

/* Addresses that stay registered are not used again. */
void gck_cuda_ring_end(struct gck_cuda_ring *r)
{
	bool failed = false;

	for (uint64_t part = 0; part < GCK_CUDA_RING_PARTS; part++) {
		if (r->registered >> part & 1)
			failed |= gck_cuda_real.cuMemHostUnregister(r->at +
								   part * GCK_CUDA_RING_PART) != 0;
	}
	if (r->at && failed)
		mmap(r->at, r->size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	else if (r->at)
		munmap(r->at, r->size);
	*r = (struct gck_cuda_ring){.at = NULL};
}

/* ---- the queue ------------------------------------------------------------------------------ */

static int stream_begin(struct gck_cuda_copy_stream *on, const struct gck_cuda_share *share,
			struct gck_error *err)
{
	CUcontext context = share->context;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);
	int lowest = 0, highest;

	*on = (struct gck_cuda_copy_stream){.device = share->device, .context = context};
	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	gck_cuda_real.cuCtxGetStreamPriorityRange(&lowest, &highest);
	rc = gck_cuda_real.cuStreamCreateWithPriority(&on->stream, CU_STREAM_NON_BLOCKING, lowest);
	for (int i = 0; rc == CUDA_SUCCESS && i < GCK_CUDA_QUEUED_COPIES; i++)
		rc = gck_cuda_real.cuEventCreate(&on->events[i], CU_EVENT_DISABLE_TIMING);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc ? gck_cuda_fail(err, "a stream for device data", rc) : 0;
}

/* In the stream's own context: the caller's current context may have ended. */
static void stream_end(struct gck_cuda_copy_stream *on)
{
	CUcontext context;

	if (!on->context || gck_cuda_real.cuCtxPushCurrent_v2(on->context))
		return;
	if (on->stream)
		gck_cuda_real.cuStreamSynchronize(on->stream);
	for (int i = 0; i < GCK_CUDA_QUEUED_COPIES; i++) {
		if (on->events[i])
			gck_cuda_real.cuEventDestroy_v2(on->events[i]);
	}
	if (on->stream)
		gck_cuda_real.cuStreamDestroy_v2(on->stream);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
}

int gck_cuda_copy_queue_begin(struct gck_cuda_copy_queue *m, enum gck_cuda_way way,
			      struct gck_cuda_ring *ring, const struct gck_cuda_snapshot *of,
			      struct gck_error *err)
{
	*m = (struct gck_cuda_copy_queue){.way = way, .ring = ring,
				     .streams = calloc(of->nshares + 1, sizeof *m->streams)};
	if (!m->streams)
		return gck_fail(err, ENOMEM, "no memory for the streams of device data");
	for (size_t i = 0; i < of->nshares; i++) {
		if (!of->shares[i].size)
			continue;
		if (stream_begin(&m->streams[m->nstreams++], &of->shares[i], err))
			return -1;
	}
	return 0;
}

void gck_cuda_copy_queue_end(struct gck_cuda_copy_queue *m)
{
	for (size_t i = 0; i < m->nstreams; i++)
		stream_end(&m->streams[i]);
	free(m->streams);
	*m = (struct gck_cuda_copy_queue){.streams = NULL};
}

void gck_cuda_copy_queue_lost(struct gck_cuda_copy_queue *m, CUcontext gone)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct gck_cuda_queued_copy *u =
			&m->under_way[(m->first + i) % GCK_CUDA_QUEUED_COPIES];

		if (u->on->context == gone)
			u->done = NULL;
	}
	for (size_t i = 0; i < m->nstreams; i++) {
		if (m->streams[i].context == gone)
			m->streams[i].context = NULL;
	}
}

static struct gck_cuda_copy_stream *stream_of(const struct gck_cuda_copy_queue *m, CUdevice device)
{
	for (size_t i = 0; i < m->nstreams; i++) {
		if (m->streams[i].device == device)
			return &m->streams[i];
	}
	return NULL;
}

/* With the stream's context current. */
static CUresult copy(const struct gck_cuda_copy_queue *m, struct gck_cuda_queued_copy *move,
		     uint64_t offset)
{
	CUstream stream = move->on->stream;
	char *host = m->ring->at + offset;
	CUresult rc = ring_use(m->ring, offset, &move->size);

	if (!rc)
		rc = m->way == GCK_CUDA_OUT
		     ? gck_cuda_real.cuMemcpyDtoHAsync_v2(host, move->address, move->size, stream)
		     : gck_cuda_real.cuMemcpyHtoDAsync_v2(move->address, host, move->size, stream);
	return rc ? rc : gck_cuda_real.cuEventRecord(move->done, stream);
}

/* Make the stream's context current; it stays so. */
static CUresult begin(const struct gck_cuda_copy_queue *m, CUdevice device,
		      struct gck_cuda_queued_copy *move)
{
	const struct gck_cuda_copy_stream *on = stream_of(m, device);

	if (!on || !on->context)
		return CUDA_ERROR_INVALID_VALUE;
	move->on = on;
	move->done = on->events[(m->first + m->n) % GCK_CUDA_QUEUED_COPIES];
	return gck_cuda_real.cuCtxPushCurrent_v2(on->context);
}

static CUresult begun(struct gck_cuda_copy_queue *m, const struct gck_cuda_queued_copy *move,
		      CUresult rc)
{
	CUcontext context;

	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	if (rc == CUDA_SUCCESS)
		m->under_way[(m->first + m->n++) % GCK_CUDA_QUEUED_COPIES] = *move;
	return rc;
}

CUresult gck_cuda_copy_queue_start(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address,
				   uint64_t offset, uint64_t *size)
{
	struct gck_cuda_queued_copy move = {.address = address, .size = *size};
	CUresult rc = begin(m, device, &move);

	if (rc)
		return rc;
	rc = begun(m, &move, copy(m, &move, offset));
	*size = move.size;
	return rc;
}

/* The device writes the hashes into the ring. */
static CUresult hash(const struct gck_cuda_copy_queue *m, const struct gck_cuda_queued_copy *move,
		     uint64_t offset)
{
	const struct gck_cuda_hash_module *h = gck_cuda_hash_module_of(move->on->context);
	uint64_t bytes = gck_cuda_hash_chunks(move->address, move->size) * GCK_CUDA_HASH_BYTES,
		 n = bytes;
	CUstream stream = move->on->stream;
	CUdeviceptr out;
	CUresult rc;

	if (!h)
		return CUDA_ERROR_NOT_SUPPORTED;
	rc = ring_use(m->ring, offset, &n);
	if (rc || n < bytes)
		return rc ? rc : CUDA_ERROR_INVALID_VALUE;
	rc = gck_cuda_real.cuMemHostGetDevicePointer_v2(&out, m->ring->at + offset, 0);
	if (rc)
		return rc;
	return gck_cuda_hash(h, stream, move->address, move->size, out, NULL)
	       ? CUDA_ERROR_LAUNCH_FAILED : gck_cuda_real.cuEventRecord(move->done, stream);
}

CUresult gck_cuda_copy_queue_hash(struct gck_cuda_copy_queue *m, CUdevice device, uint64_t address,
				  uint64_t size, uint64_t offset)
{
	struct gck_cuda_queued_copy move = {.address = address, .size = size};
	CUresult rc = begin(m, device, &move);

	return rc ? rc : begun(m, &move, hash(m, &move, offset));
}

static void forget_oldest(struct gck_cuda_copy_queue *m)
{
	m->first = (m->first + 1) % GCK_CUDA_QUEUED_COPIES;
	m->n--;
}

CUresult gck_cuda_copy_queue_poll(struct gck_cuda_copy_queue *m)
{
	const struct gck_cuda_queued_copy *oldest = &m->under_way[m->first];
	CUresult rc = !m->n	     ? CUDA_ERROR_NOT_READY
		      : oldest->done ? gck_cuda_real.cuEventQuery(oldest->done)
				     : CUDA_ERROR_CONTEXT_IS_DESTROYED;

	if (rc == CUDA_SUCCESS)
		forget_oldest(m);
	return rc;
}

bool gck_cuda_copy_queue_settle(struct gck_cuda_copy_queue *m)
{
	CUresult rc;

	while (m->n && (rc = gck_cuda_copy_queue_poll(m)) != CUDA_ERROR_NOT_READY) {
		if (rc)
			forget_oldest(m);
	}
	return !m->n;
}

bool gck_cuda_copy_queue_uses(const struct gck_cuda_copy_queue *m, uint64_t address, uint64_t size)
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct gck_cuda_queued_copy *u =
			&m->under_way[(m->first + i) % GCK_CUDA_QUEUED_COPIES];

		if (u->address < address + size && address < u->address + u->size)
			return true;
	}
	return false;
}
