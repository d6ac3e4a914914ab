/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/memory/slab_supply.h"

#include "shim/cuda/memory/slab.h"

#define LEAST_SLAB ((uint64_t)32 << 20)
#define MOST_SLAB ((uint64_t)1 << 30)
#define GROWTH 64  /* a new slab has this part of all slabs' bytes */
#define RESERVE 32 /* and this part may be empty: the documentation promises a twentieth for both */

static uint64_t (*retained_by_pools)(CUdevice device);

void gck_cuda_slabs_reserve_by(uint64_t (*retained)(CUdevice device))
{
	retained_by_pools = retained;
}

static uint64_t up(uint64_t n)
{
	return (n + GCK_CUDA_SLAB_UNIT - 1) / GCK_CUDA_SLAB_UNIT * GCK_CUDA_SLAB_UNIT;
}

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

/* Drop empty slabs beyond `most` bytes. */
static void trim(CUdevice device, uint64_t most)
{
	for (size_t i = gck_cuda_slabs.n; i-- > 0 && held(device, true) > most;) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && gck_cuda_arena_is_empty(&s->arena))
			gck_cuda_slab_drop(s);
	}
}

/* How many empty bytes stay: pools keep what their thresholds say. */
static uint64_t reserve(CUdevice device)
{
	uint64_t part = held(device, false) / RESERVE,
		 retained = retained_by_pools ? retained_by_pools(device) : 0;

	part = part > retained ? part : retained;
	return part > LEAST_SLAB ? part : LEAST_SLAB;
}

/* Prefer a large slab; if there is no memory for it, make one just large enough. */
CUresult gck_cuda_slabs_grow(CUdevice device, uint64_t bytes)
{
	uint64_t need = up(bytes), size = up(held(device, false) / GROWTH);
	struct gck_cuda_slab *s;
	CUresult rc;

	size = size < LEAST_SLAB ? LEAST_SLAB : size > MOST_SLAB ? MOST_SLAB : size;
	rc = gck_cuda_slab_new(device, size > need ? size : need, &s);
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		return rc;
	trim(device, 0);
	return gck_cuda_slab_new(device, need, &s);
}

void gck_cuda_slabs_trim(CUdevice device)
{
	trim(device, reserve(device));
}

bool gck_cuda_slabs_drop_empty(void)
{
	size_t before = gck_cuda_slabs.n;

	for (size_t i = before; i-- > 0;) {
		if (gck_cuda_arena_is_empty(&gck_cuda_slabs.v[i]->arena))
			gck_cuda_slab_drop(gck_cuda_slabs.v[i]);
	}
	return gck_cuda_slabs.n < before;
}
