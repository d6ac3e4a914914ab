/* SPDX-License-Identifier: Apache-2.0
 * A snapshot that was made: its blocks unmapped, mapped again, and freed. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/base/obstacles.h"
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
		const struct gck_cuda_slab *s = &gck_cuda_snapshot.blocks[i];

		if (s->memory.vault_name && s->device == device)
			return true;
	}
	return false;
}

CUresult gck_cuda_snapshot_unmap(void)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_snapshot.nblocks; i++)
		rc = gck_cuda_slab_unmap(&gck_cuda_snapshot.blocks[i]);
	return rc;
}

CUresult gck_cuda_snapshot_map_one(bool *others)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	size_t i = 0;
	CUresult rc;

	while (i < s->nblocks && s->blocks[i].mapped)
		i++;
	rc = i < s->nblocks ? gck_cuda_slab_map(&s->blocks[i], 0) : CUDA_SUCCESS;
	*others = i + 1 < s->nblocks;
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

bool gck_cuda_snapshot_drop_block(struct gck_cuda_slab *b)
{
	bool away = gck_cuda_slab_unmap(b) == CUDA_SUCCESS;

	gck_cuda_physical_drop(&b->memory);
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
