/* SPDX-License-Identifier: Apache-2.0
 * A snapshot that was made: its blocks unmapped, mapped again, and freed. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/base/retry.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/gate/prefault.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/snapshot/staging.h"

bool gck_cuda_snapshot_is_on_device(void)
{
	return gck_cuda_snapshot.nblocks > 0;
}

static bool is_on(CUdevice device)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nblocks; i++) {
		const struct gck_cuda_slab *s = &gck_cuda_snapshot.blocks[i].slab;

		if (s->memory.vault_name && s->device == device)
			return true;
	}
	return false;
}

CUresult gck_cuda_snapshot_unmap(void)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_snapshot.nblocks; i++)
		rc = gck_cuda_slab_unmap(&gck_cuda_snapshot.blocks[i].slab);
	return rc;
}

static bool is_there(const struct gck_cuda_block *b)
{
	return b->slab.mapped || b->external.at;
}

CUresult gck_cuda_snapshot_map_one(bool *others)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	size_t i = 0;
	CUresult rc;

	while (i < s->nblocks && is_there(&s->blocks[i]))
		i++;
	rc = i < s->nblocks ? gck_cuda_slab_map(&s->blocks[i].slab, 0) : CUDA_SUCCESS;
	*others = i + 1 < s->nblocks;
	return rc;
}

/* ---- as external memory --------------------------------------------------------------------- */

bool gck_cuda_snapshot_is_open(void)
{
	bool open = false;

	for (size_t i = 0; i < gck_cuda_snapshot.nblocks; i++)
		open |= gck_cuda_snapshot.blocks[i].external.at != 0;
	return open;
}

/* The context that the block is used from; NULL: it has ended. */
static CUcontext context_of(const struct gck_cuda_block *b)
{
	const struct gck_cuda_share *share = gck_cuda_snapshot.shares;

	while (share->device != b->slab.device)
		share++;
	return share->context;
}

void gck_cuda_snapshot_close(void)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nblocks; i++) {
		struct gck_cuda_block *b = &gck_cuda_snapshot.blocks[i];

		gck_cuda_external_mapping_close(&b->external, context_of(b));
	}
}

/* Replace the block's addresses by those of its external mapping. */
static void move(struct gck_cuda_slab *s, uint64_t to)
{
	for (size_t i = 0; i < gck_cuda_snapshot.n; i++) {
		struct gck_cuda_extent *e = &gck_cuda_snapshot.v[i];

		if (e->on_device && e->copy - s->base < s->size)
			e->copy += to - s->base;
	}
	s->base = to;
}

static CUresult open(struct gck_cuda_block *b)
{
	CUcontext context = context_of(b);
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return rc;
	rc = gck_cuda_external_mapping_open(&b->external, &b->slab.memory, b->slab.size,
					    GCK_CUDA_RETRIES);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	if (rc == CUDA_SUCCESS)
		move(&b->slab, b->external.at);
	return rc;
}

CUresult gck_cuda_snapshot_open(void)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_snapshot.nblocks; i++) {
		if (!is_there(&gck_cuda_snapshot.blocks[i]))
			rc = open(&gck_cuda_snapshot.blocks[i]);
	}
	return rc;
}

void gck_cuda_snapshot_lost(CUcontext gone)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nshares; i++) {
		if (gck_cuda_snapshot.shares[i].context == gone)
			gck_cuda_snapshot.shares[i].context = NULL;
	}
}

/* ---- gone ----------------------------------------------------------------------------------- */

void gck_cuda_snapshot_drop_host(void)
{
	if (gck_cuda_snapshot.host)
		munmap(gck_cuda_snapshot.host, gck_cuda_snapshot.host_capacity);
	gck_cuda_snapshot.host = NULL;
	gck_cuda_snapshot.host_size = gck_cuda_snapshot.host_capacity = 0;
}

/* Free all but the host memory, which another thread may be freeing. */
static void clear(struct gck_cuda_snapshot *s)
{
	for (size_t i = 0; i < s->nshares; i++) {
		if (s->shares[i].base)
			gck_cuda_region_give(s->shares[i].base);
	}
	free(s->v);
	free(s->shares);
	free(s->blocks);
	s->v = NULL;
	s->shares = NULL;
	s->blocks = NULL;
	s->n = s->capacity = s->nshares = s->shares_capacity = s->nblocks = s->blocks_capacity = 0;
}

bool gck_cuda_snapshot_drop_block(struct gck_cuda_block *b)
{
	bool away = gck_cuda_slab_unmap(&b->slab) == CUDA_SUCCESS &&
		    gck_cuda_external_mapping_close(&b->external, context_of(b)) == CUDA_SUCCESS;

	gck_cuda_physical_drop(&b->slab.memory);
	return away;
}

bool gck_cuda_snapshot_give(CUdevice device)
{
	bool there = is_on(device);

	for (size_t i = 0; there && i < gck_cuda_snapshot.nblocks; i++)
		gck_cuda_snapshot_drop_block(&gck_cuda_snapshot.blocks[i]);
	return there;
}

void gck_cuda_snapshot_drop(void)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	bool failed = false;

	for (size_t i = 0; i < s->nblocks; i++)
		failed |= !gck_cuda_snapshot_drop_block(&s->blocks[i]);
	for (size_t i = 0; failed && i < s->nshares; i++) {
		/* nothing else can be mapped there, and the driver would lose the process */
		gck_cuda_obstacle_add_once(GCK_CUDA_UNFREED_COPY, s->shares[i].base);
		s->shares[i].base = 0;
	}
	clear(s);
}

void gck_cuda_snapshot_forget(void)
{
	clear(&gck_cuda_snapshot);
}

/* ---- prepared while the program runs -------------------------------------------------------- */

/* Bytes of a device that probably will not fit on it (free_bytes.h). */
static uint64_t homeless(const struct gck_cuda_order *order, CUdevice device)
{
	const struct gck_cuda_memory *m = &gck_cuda_state.memory[device];
	uint64_t most = order->device_copy_max[device],
		 left = m->free_bytes < most ? m->free_bytes : most, taken = m->bytes;

	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		if (gck_cuda_slabs.v[i]->device == device)
			taken -= gck_cuda_slabs.v[i]->arena.free;
	}
	return taken > left ? taken - left : 0;
}

void gck_cuda_snapshot_prepare(const struct gck_cuda_order *order)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	uint64_t size = 0, one;
	size_t devices = 0;

	gck_cuda_snapshot_drop_host();
	gck_cuda_slabs_lock();
	for (CUdevice d = 0; d < GCK_CUDA_DEVICES_MAX; d++) {
		one = homeless(order, d);
		size += one;
		devices += one > 0;
	}
	gck_cuda_slabs_unlock();
	size = size < order->host_copy_max ? size : order->host_copy_max;
	s->host = size ? gck_cuda_prefault_new(size) : NULL;
	if (!s->host)
		return;
	s->host_capacity = size;
	gck_cuda_prefault(s->host, size, order->end_ns);
	gck_cuda_stage_expect(devices, order->end_ns);
}
