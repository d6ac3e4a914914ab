/* SPDX-License-Identifier: Apache-2.0
 * Pieces of slabs. Large requests are cut out of a slab in units of 64 KiB, small ones out of blocks
 * of 2 MiB, in units of 512 bytes, that are cut out of a slab. A new slab grows with what there is, so
 * that there are few, since each has its price at a checkpoint; a slab that is empty goes back to the
 * driver, but for a reserve. Where there can be no slabs the driver's own memory must do. */
#include "shim/cuda/memory.h"

#include <stdlib.h>

#include "shim/cuda/function.h"
#include "shim/cuda/slab.h"

#define UNIT 512
#define SMALL ((uint64_t)1 << 20)      /* up to here out of a block */
#define BLOCK ((uint64_t)2 << 20)
#define LEAST_SLAB ((uint64_t)32 << 20)
#define MOST_SLAB ((uint64_t)1 << 30)

static uint64_t last_id;

/* ---- taking --------------------------------------------------------------------------------- */

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static struct gck_cuda_piece *take_from_blocks(const struct gck_cuda_slab *s, uint64_t bytes)
{
	struct gck_cuda_piece *p = NULL;

	for (size_t i = 0; !p && i < s->arena.n; i++) {
		if (s->arena.v[i].inner)
			p = gck_cuda_arena_take(s->arena.v[i].inner, bytes);
	}
	return p;
}

static struct gck_cuda_piece *take_from_new_block(struct gck_cuda_slab *s, uint64_t bytes)
{
	struct gck_cuda_arena *inner = malloc(sizeof *inner);
	struct gck_cuda_piece *block = inner ? gck_cuda_arena_take(&s->arena, BLOCK) : NULL;

	if (block && gck_cuda_arena_init(inner, block->base, BLOCK, UNIT) == 0) {
		block->inner = inner;
		return gck_cuda_arena_take(inner, bytes);
	}
	if (block)
		gck_cuda_arena_give(&s->arena, block->base);
	free(inner);
	return NULL;
}

/* In the slabs that there are. */
static struct gck_cuda_piece *take(CUdevice device, uint64_t bytes)
{
	struct gck_cuda_piece *p = NULL;

	for (size_t i = 0; !p && bytes <= SMALL && i < gck_cuda_slabs.n; i++) {
		if (gck_cuda_slabs.v[i]->device == device)
			p = take_from_blocks(gck_cuda_slabs.v[i], bytes);
	}
	for (size_t i = 0; !p && i < gck_cuda_slabs.n; i++) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device)
			p = bytes <= SMALL ? take_from_new_block(s, bytes)
					   : gck_cuda_arena_take(&s->arena, bytes);
	}
	return p;
}

/* ---- slabs' comings and goings -------------------------------------------------------------- */

static uint64_t held(CUdevice device, bool empty_only)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && (!empty_only || gck_cuda_arena_is_empty(&s->arena)))
			bytes += s->size;
	}
	return bytes;
}

/* Empty slabs beyond so many bytes go. */
static void trim(CUdevice device, uint64_t reserve)
{
	for (size_t i = gck_cuda_slabs.n; i-- > 0 && held(device, true) > reserve;) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && gck_cuda_arena_is_empty(&s->arena))
			gck_cuda_slab_drop(s);
	}
}

/* As large as is sensible; where that is not to be had, as large as it must be. */
static CUresult grow(CUdevice device, uint64_t bytes)
{
	uint64_t need = up(bytes, GCK_CUDA_SLAB_UNIT), size = up(held(device, false) / 16, GCK_CUDA_SLAB_UNIT);
	struct gck_cuda_slab *s;
	CUresult rc;

	size = size < LEAST_SLAB ? LEAST_SLAB : size > MOST_SLAB ? MOST_SLAB : size;
	rc = gck_cuda_slab_new(device, size > need ? size : need, &s);
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		return rc;
	trim(device, 0);
	return gck_cuda_slab_new(device, need, &s);
}

CUresult gck_cuda_memory_take(uint64_t bytes, CUdeviceptr *address)
{
	struct gck_cuda_piece *p;
	CUresult rc = CUDA_SUCCESS;
	CUcontext context;
	CUdevice device;

	if (gck_cuda_real.cuCtxGetCurrent(&context) || gck_cuda_real.cuCtxGetDevice(&device))
		return CUDA_ERROR_NOT_SUPPORTED; /* and the driver says why */
	gck_cuda_slabs_lock();
	p = take(device, bytes);
	if (!p) {
		rc = grow(device, bytes <= SMALL ? BLOCK : bytes);
		p = rc ? NULL : take(device, bytes);
	}
	if (p) {
		p->owner = context;
		p->id = ++last_id;
		*address = p->base;
	} else if (rc != CUDA_ERROR_OUT_OF_MEMORY) {
		rc = rc ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
	}
	gck_cuda_slabs_unlock();
	return rc;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static struct gck_cuda_piece *find(uint64_t address, struct gck_cuda_slab **slab,
				   struct gck_cuda_piece **block)
{
	struct gck_cuda_slab *s = gck_cuda_slab_of(address);
	struct gck_cuda_piece *p = s ? gck_cuda_arena_find(&s->arena, address) : NULL;

	*slab = s;
	*block = p && p->inner ? p : NULL;
	return *block ? gck_cuda_arena_find(p->inner, address) : p;
}

static void give_block(struct gck_cuda_slab *s, struct gck_cuda_piece *block)
{
	gck_cuda_arena_free(block->inner);
	free(block->inner);
	gck_cuda_arena_give(&s->arena, block->base);
}

/* An empty slab of these may be one too many. */
static void give_slab(const struct gck_cuda_slab *s)
{
	uint64_t reserve = held(s->device, false) / 8;

	if (gck_cuda_arena_is_empty(&s->arena))
		trim(s->device, reserve > LEAST_SLAB ? reserve : LEAST_SLAB);
}

static void give(struct gck_cuda_slab *s, struct gck_cuda_piece *block, uint64_t base)
{
	if (!block) {
		gck_cuda_arena_give(&s->arena, base);
	} else {
		gck_cuda_arena_give(block->inner, base);
		if (gck_cuda_arena_is_empty(block->inner))
			give_block(s, block);
	}
	give_slab(s);
}

CUresult gck_cuda_memory_give(const struct gck_cuda_allocation *a)
{
	struct gck_cuda_piece *block;
	const struct gck_cuda_piece *p;
	struct gck_cuda_slab *s;
	bool there;

	gck_cuda_slabs_lock();
	p = find(a->base, &s, &block);
	there = p && p->base == a->base && p->id == a->id;
	if (there)
		give(s, block, a->base);
	gck_cuda_slabs_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool gck_cuda_memory_find(uint64_t address, struct gck_cuda_allocation *a)
{
	struct gck_cuda_piece *block;
	const struct gck_cuda_piece *p;
	struct gck_cuda_slab *s;

	gck_cuda_slabs_lock();
	p = find(address, &s, &block);
	if (p)
		*a = (struct gck_cuda_allocation){.base = p->base, .size = p->asked,
						  .context = p->owner, .id = p->id};
	gck_cuda_slabs_unlock();
	return p != NULL;
}

bool gck_cuda_memory_is_ours(uint64_t address)
{
	bool ours;

	gck_cuda_slabs_lock();
	ours = gck_cuda_slab_of(address) != NULL;
	gck_cuda_slabs_unlock();
	return ours;
}

uint64_t gck_cuda_memory_newest(void)
{
	uint64_t id;

	gck_cuda_slabs_lock();
	id = last_id;
	gck_cuda_slabs_unlock();
	return id;
}

static void forget_in(struct gck_cuda_arena *a, CUcontext context, uint64_t newest)
{
	for (size_t i = 0; i < a->n;) {
		const struct gck_cuda_piece *p = &a->v[i];

		if (p->asked && !p->inner && p->owner == context && p->id <= newest) {
			gck_cuda_arena_give(a, p->base);
			i -= i > 0; /* it may have become one with the piece before it */
		} else {
			i++;
		}
	}
}

static void forget_in_blocks(struct gck_cuda_slab *s, CUcontext context, uint64_t newest)
{
	for (size_t i = 0; i < s->arena.n; i++) {
		struct gck_cuda_piece *block = &s->arena.v[i];

		if (!block->inner)
			continue;
		forget_in(block->inner, context, newest);
		if (gck_cuda_arena_is_empty(block->inner)) {
			give_block(s, block);
			i -= i > 0;
		}
	}
}

void gck_cuda_memory_forget(CUcontext context, uint64_t newest)
{
	gck_cuda_slabs_lock();
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		forget_in_blocks(gck_cuda_slabs.v[i], context, newest);
		forget_in(&gck_cuda_slabs.v[i]->arena, context, newest);
	}
	for (size_t i = gck_cuda_slabs.n; i-- > 0;) {
		if (gck_cuda_arena_is_empty(&gck_cuda_slabs.v[i]->arena))
			gck_cuda_slab_drop(gck_cuda_slabs.v[i]);
	}
	gck_cuda_slabs_unlock();
}

uint64_t gck_cuda_memory_spare(CUdevice device)
{
	uint64_t bytes = 0;

	gck_cuda_slabs_lock();
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device != device)
			continue;
		bytes += s->arena.free;
		for (size_t k = 0; k < s->arena.n; k++)
			bytes += s->arena.v[k].inner ? s->arena.v[k].inner->free : 0;
	}
	gck_cuda_slabs_unlock();
	return bytes;
}
