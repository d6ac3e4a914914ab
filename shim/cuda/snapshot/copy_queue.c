/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/copy_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/snapshot/hash.h"

static int lane_begin(struct gck_cuda_lane *lane, const struct gck_cuda_share *share, struct gck_error *err)
{
	CUcontext context = share->context;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);
	int lowest = 0, highest;

	*lane = (struct gck_cuda_lane){.device = share->device, .context = context};
	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	gck_cuda_real.cuCtxGetStreamPriorityRange(&lowest, &highest);
	rc = gck_cuda_real.cuStreamCreateWithPriority(&lane->stream, CU_STREAM_NON_BLOCKING, lowest);
	for (int i = 0; rc == CUDA_SUCCESS && i < GCK_CUDA_MOVES; i++)
		rc = gck_cuda_real.cuEventCreate(&lane->events[i], CU_EVENT_DISABLE_TIMING);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc ? gck_cuda_fail(err, "a stream for device data", rc) : 0;
}

/* In its context: the caller's own may be one that has ended. */
static void lane_end(struct gck_cuda_lane *lane)
{
	CUcontext context;

	if (!lane->context || gck_cuda_real.cuCtxPushCurrent_v2(lane->context))
		return;
	if (lane->stream)
		gck_cuda_real.cuStreamSynchronize(lane->stream);
	for (int i = 0; i < GCK_CUDA_MOVES; i++) {
		if (lane->events[i])
			gck_cuda_real.cuEventDestroy_v2(lane->events[i]);
	}
	if (lane->stream)
		gck_cuda_real.cuStreamDestroy_v2(lane->stream);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
}

int gck_cuda_mover_begin(struct gck_cuda_mover *m, enum gck_cuda_way way, struct gck_cuda_ring *ring,
			 const struct gck_cuda_snapshot *of, struct gck_error *err)
{
	*m = (struct gck_cuda_mover){.way = way, .ring = ring,
				     .lanes = calloc(of->nshares + 1, sizeof *m->lanes)};
	if (!m->lanes)
		return gck_fail(err, ENOMEM, "no memory for the streams of device data");
	for (size_t i = 0; i < of->nshares; i++) {
		if (!of->shares[i].size)
			continue;
		if (lane_begin(&m->lanes[m->nlanes++], &of->shares[i], err))
			return -1;
	}
	return 0;
}

void gck_cuda_mover_end(struct gck_cuda_mover *m)
{
	for (size_t i = 0; i < m->nlanes; i++)
		lane_end(&m->lanes[i]);
	free(m->lanes);
	*m = (struct gck_cuda_mover){.lanes = NULL};
}

void gck_cuda_mover_lost(struct gck_cuda_mover *m, CUcontext gone)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct gck_cuda_move *u = &m->under_way[(m->first + i) % GCK_CUDA_MOVES];

		if (u->lane->context == gone)
			u->done = NULL;
	}
	for (size_t i = 0; i < m->nlanes; i++) {
		if (m->lanes[i].context == gone)
			m->lanes[i].context = NULL;
	}
}

static struct gck_cuda_lane *lane_of(const struct gck_cuda_mover *m, CUdevice device)
{
	for (size_t i = 0; i < m->nlanes; i++) {
		if (m->lanes[i].device == device)
			return &m->lanes[i];
	}
	return NULL;
}

/* In the lane's context. */
static CUresult copy(const struct gck_cuda_mover *m, struct gck_cuda_move *move, uint64_t offset)
{
	CUstream stream = move->lane->stream;
	char *host = m->ring->at + offset;
	CUresult rc = gck_cuda_ring_use(m->ring, offset, &move->size);

	if (!rc)
		rc = m->way == GCK_CUDA_OUT
		     ? gck_cuda_real.cuMemcpyDtoHAsync_v2(host, move->address, move->size, stream)
		     : gck_cuda_real.cuMemcpyHtoDAsync_v2(move->address, host, move->size, stream);
	return rc ? rc : gck_cuda_real.cuEventRecord(move->done, stream);
}

/* In the lane's context, which is current from here on. */
static CUresult begin(const struct gck_cuda_mover *m, CUdevice device, struct gck_cuda_move *move)
{
	const struct gck_cuda_lane *lane = lane_of(m, device);

	if (!lane || !lane->context)
		return CUDA_ERROR_INVALID_VALUE;
	move->lane = lane;
	move->done = lane->events[(m->first + m->n) % GCK_CUDA_MOVES];
	return gck_cuda_real.cuCtxPushCurrent_v2(lane->context);
}

static CUresult begun(struct gck_cuda_mover *m, const struct gck_cuda_move *move, CUresult rc)
{
	CUcontext context;

	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	if (rc == CUDA_SUCCESS)
		m->under_way[(m->first + m->n++) % GCK_CUDA_MOVES] = *move;
	return rc;
}

CUresult gck_cuda_mover_start(struct gck_cuda_mover *m, CUdevice device, uint64_t address, uint64_t offset,
			      uint64_t *size)
{
	struct gck_cuda_move move = {.address = address, .size = *size};
	CUresult rc = begin(m, device, &move);

	if (rc)
		return rc;
	rc = begun(m, &move, copy(m, &move, offset));
	*size = move.size;
	return rc;
}

/* The device writes them where they go. */
static CUresult hash(const struct gck_cuda_mover *m, const struct gck_cuda_move *move, uint64_t offset)
{
	const struct gck_cuda_hasher *h = gck_cuda_hasher_of(move->lane->context);
	uint64_t bytes = gck_cuda_hash_windows(move->address, move->size) * GCK_CUDA_HASH_BYTES, n = bytes;
	CUstream stream = move->lane->stream;
	CUdeviceptr out;
	CUresult rc;

	if (!h)
		return CUDA_ERROR_NOT_SUPPORTED;
	rc = gck_cuda_ring_use(m->ring, offset, &n);
	if (rc || n < bytes)
		return rc ? rc : CUDA_ERROR_INVALID_VALUE;
	rc = gck_cuda_real.cuMemHostGetDevicePointer_v2(&out, m->ring->at + offset, 0);
	if (rc)
		return rc;
	return gck_cuda_hash(h, stream, move->address, move->size, out, NULL)
	       ? CUDA_ERROR_LAUNCH_FAILED : gck_cuda_real.cuEventRecord(move->done, stream);
}

CUresult gck_cuda_mover_hash(struct gck_cuda_mover *m, CUdevice device, uint64_t address, uint64_t size,
			     uint64_t offset)
{
	struct gck_cuda_move move = {.address = address, .size = size};
	CUresult rc = begin(m, device, &move);

	return rc ? rc : begun(m, &move, hash(m, &move, offset));
}

static void forget_oldest(struct gck_cuda_mover *m)
{
	m->first = (m->first + 1) % GCK_CUDA_MOVES;
	m->n--;
}

CUresult gck_cuda_mover_poll(struct gck_cuda_mover *m)
{
	const struct gck_cuda_move *oldest = &m->under_way[m->first];
	CUresult rc = !m->n ? CUDA_ERROR_NOT_READY :
		      oldest->done ? gck_cuda_real.cuEventQuery(oldest->done) : CUDA_ERROR_CONTEXT_IS_DESTROYED;

	if (rc == CUDA_SUCCESS)
		forget_oldest(m);
	return rc;
}

bool gck_cuda_mover_settle(struct gck_cuda_mover *m)
{
	CUresult rc;

	while (m->n && (rc = gck_cuda_mover_poll(m)) != CUDA_ERROR_NOT_READY) {
		if (rc)
			forget_oldest(m);
	}
	return !m->n;
}

bool gck_cuda_mover_uses(const struct gck_cuda_mover *m, uint64_t address, uint64_t size)
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct gck_cuda_move *u = &m->under_way[(m->first + i) % GCK_CUDA_MOVES];

		if (u->address < address + size && address < u->address + u->size)
			return true;
	}
	return false;
}
