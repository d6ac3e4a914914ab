/* SPDX-License-Identifier: Apache-2.0
 * A snapshot that is made: its blocks away, back, and gone. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/alive.h"
#include "shim/cuda/snapshot.h"

bool gck_cuda_snapshot_is_kept(void)
{
	return gck_cuda_snapshot.nblocks > 0;
}

bool gck_cuda_snapshot_is_on(CUdevice device)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nblocks; i++) {
		if (gck_cuda_snapshot.blocks[i].memory.kept && gck_cuda_snapshot.blocks[i].device == device)
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

void gck_cuda_snapshot_drop_host(void)
{
	if (gck_cuda_snapshot.host)
		munmap(gck_cuda_snapshot.host, gck_cuda_snapshot.host_room);
	gck_cuda_snapshot.host = NULL;
	gck_cuda_snapshot.host_size = gck_cuda_snapshot.host_room = 0;
}

/* All but the host's part, which another thread may be dropping. */
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
	s->n = s->room = s->nshares = s->shares_room = s->nblocks = s->blocks_room = 0;
}

bool gck_cuda_snapshot_drop_block(struct gck_cuda_slab *b)
{
	bool away = gck_cuda_slab_unmap(b) == CUDA_SUCCESS;

	gck_cuda_physical_drop(&b->memory);
	return away;
}

bool gck_cuda_snapshot_give(CUdevice device)
{
	bool there = gck_cuda_snapshot_is_on(device);

	for (size_t i = 0; there && i < gck_cuda_snapshot.nblocks; i++)
		gck_cuda_snapshot_drop_block(&gck_cuda_snapshot.blocks[i]);
	return there;
}

void gck_cuda_snapshot_drop(void)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	bool stuck = false;

	for (size_t i = 0; i < s->nblocks; i++)
		stuck |= !gck_cuda_snapshot_drop_block(&s->blocks[i]);
	for (size_t i = 0; stuck && i < s->nshares; i++) {
		/* nothing else can be mapped there, and the driver would lose the process */
		gck_cuda_alive_once(GCK_CUDA_IMPORT, s->shares[i].base);
		s->shares[i].base = 0;
	}
	clear(s);
}

void gck_cuda_snapshot_forget(void)
{
	clear(&gck_cuda_snapshot);
}
