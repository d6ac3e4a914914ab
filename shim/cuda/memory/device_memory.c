/* SPDX-License-Identifier: Apache-2.0
 * Suballocations of slabs. Large requests are taken from a slab in units of 64 KiB; small ones, in
 * units of 512 bytes, from blocks of 2 MiB, which are taken from a slab. Where slabs are not
 * possible the driver allocates. */
#include "shim/cuda/memory/device_memory.h"

#include <stdlib.h>

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_supply.h"

#define UNIT 512
#define CUT ((uint64_t)1 << 16)        /* the unit in slabs */
#define SMALL ((uint64_t)1 << 20)      /* requests up to here come from a block */
#define BLOCK ((uint64_t)2 << 20)

static _Atomic uint64_t last_id;

/* ---- taking --------------------------------------------------------------------------------- */

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static struct gck_cuda_suballocation *take_from_blocks(const struct gck_cuda_slab *s,
						       uint64_t bytes)
{
	struct gck_cuda_suballocation *p = NULL;

	for (size_t i = 0; !p && i < s->arena.n; i++) {
		if (s->arena.v[i].inner)
			p = gck_cuda_arena_take(s->arena.v[i].inner, bytes);
	}
	return p;
}

static struct gck_cuda_suballocation *take_from_new_block(struct gck_cuda_slab *s, uint64_t bytes)
{
	struct gck_cuda_arena *inner = malloc(sizeof *inner);
	struct gck_cuda_suballocation *block = inner ? gck_cuda_arena_take(&s->arena, BLOCK) : NULL;

	if (block && gck_cuda_arena_init(inner, block->base, BLOCK, UNIT) == 0) {
		block->inner = inner;
		return gck_cuda_arena_take(inner, bytes);
	}
	if (block)
		gck_cuda_arena_give(&s->arena, block->base);
	free(inner);
	return NULL;
}

/* Allocate from the existing slabs. */
static struct gck_cuda_suballocation *take(CUdevice device, uint64_t bytes)
{
	struct gck_cuda_suballocation *p = NULL;

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

CUresult gck_cuda_memory_take_on(CUdevice device, CUcontext owner, uint64_t bytes, bool may_grow,
				 struct gck_cuda_allocation *a)
{
	struct gck_cuda_suballocation *p;
	CUresult rc = CUDA_SUCCESS;

	gck_cuda_slabs_lock();
	p = take(device, bytes);
	if (!p && may_grow) {
		rc = gck_cuda_slabs_grow(device, bytes <= SMALL ? BLOCK : bytes);
		p = rc ? NULL : take(device, bytes);
	}
	if (p) {
		p->owner = owner;
		p->id = ++last_id;
		*a = (struct gck_cuda_allocation){
			.base = p->base, .size = p->requested, .context = owner, .id = p->id};
	} else if (rc != CUDA_ERROR_OUT_OF_MEMORY) {
		rc = rc ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
	}
	gck_cuda_slabs_unlock();
	return rc;
}

uint64_t gck_cuda_memory_round(uint64_t bytes)
{
	return up(bytes, bytes <= SMALL ? UNIT : CUT);
}

CUresult gck_cuda_memory_take(uint64_t bytes, CUdeviceptr *address)
{
	struct gck_cuda_allocation a;
	CUcontext context;
	CUdevice device;
	CUresult rc;

	if (gck_cuda_real.cuCtxGetCurrent(&context) || gck_cuda_real.cuCtxGetDevice(&device))
		return CUDA_ERROR_NOT_SUPPORTED; /* the driver's call returns the reason */
	GCK_CUDA_TRY(rc, gck_cuda_memory_take_on(device, context, bytes, true, &a));
	if (rc == CUDA_SUCCESS)
		*address = a.base;
	return rc;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static struct gck_cuda_suballocation *find(uint64_t address, struct gck_cuda_slab **slab,
				   struct gck_cuda_suballocation **block)
{
	struct gck_cuda_slab *s = gck_cuda_slab_of(address);
	struct gck_cuda_suballocation *p = s ? gck_cuda_arena_find(&s->arena, address) : NULL;

	*slab = s;
	*block = p && p->inner ? p : NULL;
	return *block ? gck_cuda_arena_find(p->inner, address) : p;
}

static void give_block(struct gck_cuda_slab *s, struct gck_cuda_suballocation *block)
{
	gck_cuda_arena_free(block->inner);
	free(block->inner);
	gck_cuda_arena_give(&s->arena, block->base);
}


static void give(struct gck_cuda_slab *s, struct gck_cuda_suballocation *block, uint64_t base)
{
	if (!block) {
		gck_cuda_arena_give(&s->arena, base);
	} else {
		gck_cuda_arena_give(block->inner, base);
		if (gck_cuda_arena_is_empty(block->inner))
			give_block(s, block);
	}
	if (gck_cuda_arena_is_empty(&s->arena))
		gck_cuda_slabs_trim(s->device); /* there may be one empty slab too many */
}

/* NULL: another thread has freed it. */
static struct gck_cuda_suballocation *allocation_of(const struct gck_cuda_allocation *a,
					       struct gck_cuda_slab **slab,
					       struct gck_cuda_suballocation **block)
{
	struct gck_cuda_suballocation *p = find(a->base, slab, block);

	return p && p->base == a->base && p->id == a->id ? p : NULL;
}

bool gck_cuda_memory_disown(const struct gck_cuda_allocation *a)
{
	struct gck_cuda_suballocation *p, *block;
	struct gck_cuda_slab *s;

	gck_cuda_slabs_lock();
	p = allocation_of(a, &s, &block);
	if (p)
		p->owner = NULL;
	gck_cuda_slabs_unlock();
	return p;
}

CUresult gck_cuda_memory_give(const struct gck_cuda_allocation *a)
{
	struct gck_cuda_suballocation *block;
	struct gck_cuda_slab *s;
	bool there;

	gck_cuda_slabs_lock();
	there = allocation_of(a, &s, &block);
	if (there)
		give(s, block, a->base);
	gck_cuda_slabs_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool gck_cuda_memory_find(uint64_t address, struct gck_cuda_allocation *a)
{
	struct gck_cuda_suballocation *block;
	const struct gck_cuda_suballocation *p;
	struct gck_cuda_slab *s;

	gck_cuda_slabs_lock();
	p = find(address, &s, &block);
	if (p)
		*a = (struct gck_cuda_allocation){.base = p->base, .size = p->requested,
						  .context = p->owner, .id = p->id};
	gck_cuda_slabs_unlock();
	return p;
}

bool gck_cuda_memory_is_ours(uint64_t address)
{
	bool ours;

	gck_cuda_slabs_lock();
	ours = gck_cuda_slab_of(address) != NULL;
	gck_cuda_slabs_unlock();
	return ours;
}

uint64_t gck_cuda_memory_id(void)
{
	return ++last_id;
}

uint64_t gck_cuda_memory_newest(void)
{
	return last_id;
}

static void forget_in(struct gck_cuda_arena *a, CUcontext context, uint64_t newest)
{
	for (size_t i = 0; i < a->n;) {
		const struct gck_cuda_suballocation *p = &a->v[i];

		if (p->requested && !p->inner && p->owner == context && p->id <= newest) {
			gck_cuda_arena_give(a, p->base);
			i -= i > 0; /* it may have been joined to the one before it */
		} else {
			i++;
		}
	}
}

static void forget_in_blocks(struct gck_cuda_slab *s, CUcontext context, uint64_t newest)
{
	for (size_t i = 0; i < s->arena.n; i++) {
		struct gck_cuda_suballocation *block = &s->arena.v[i];

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
	gck_cuda_slabs_drop_empty();
	gck_cuda_slabs_unlock();
}

uint64_t gck_cuda_memory_spare(CUdevice device)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device != device)
			continue;
		bytes += s->arena.free;
		for (size_t k = 0; k < s->arena.n; k++)
			bytes += s->arena.v[k].inner ? s->arena.v[k].inner->free : 0;
	}
	return bytes;
}
