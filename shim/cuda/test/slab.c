/* SPDX-License-Identifier: Apache-2.0
 * A slab that cannot be made, whichever call fails: its addresses become free again. */
#include "shim/cuda/memory/slab.h"

#include <stdlib.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/memory/free_bytes.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/real.h"
#include "test/support/tap.h"

#define REGION_SIZE (1ull << 44)
#define SIZE (4 * GCK_CUDA_SLAB_UNIT)

static int good_callocs = -1; /* successful calls of calloc before one fails; -1: none fails */
static CUresult no_memory;    /* the device's answer */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return good_callocs >= 0 && good_callocs-- == 0 ? NULL : __real_calloc(n, size);
}

/* ---- what slabs call ------------------------------------------------------------------------- */

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr want,
			unsigned long long flags)
{
	(void)size;
	(void)alignment;
	(void)flags;
	*address = want;
	return CUDA_SUCCESS;
}

struct gck_cuda_real gck_cuda_real = {.cuMemAddressReserve = reserve};

CUresult gck_cuda_slab_provide(struct gck_cuda_slab *s)
{
	s->mapped = !no_memory;
	return no_memory;
}

CUresult gck_cuda_slab_unmap(struct gck_cuda_slab *s)
{
	s->mapped = false;
	return CUDA_SUCCESS;
}

void gck_cuda_physical_lost(struct gck_cuda_physical *p)
{
	p->handle = 0;
}

void gck_cuda_physical_drop(struct gck_cuda_physical *p)
{
	(void)p;
}

void gck_cuda_free_bytes_changed(CUdevice device, int64_t bytes)
{
	(void)device;
	(void)bytes;
}

void gck_cuda_vault_forget(void)
{
}

/* ---- the tests ------------------------------------------------------------------------------- */

static bool all_free(void)
{
	uint64_t all = gck_cuda_region_take(REGION_SIZE);

	if (all)
		gck_cuda_region_give(all);
	return all != 0;
}

static void fails(const char *name)
{
	struct gck_cuda_slab *s = NULL;

	is_int(gck_cuda_slab_new(0, SIZE, &s), CUDA_ERROR_OUT_OF_MEMORY, name);
	ok(all_of(!s, !gck_cuda_slabs.n, all_free()), "all addresses are free after the failure");
	good_callocs = -1;
}

int main(void)
{
	struct gck_cuda_slab *s;

	ok(all_free(), "all addresses are free at first");
	good_callocs = 0;
	fails("a slab is not made without memory for its struct");
	good_callocs = 1;
	fails("a slab is not made without memory for its arena");
	no_memory = CUDA_ERROR_OUT_OF_MEMORY;
	fails("a slab is not made without device memory");
	no_memory = CUDA_SUCCESS;
	is_int(gck_cuda_slab_new(0, SIZE, &s), CUDA_SUCCESS, "then a slab is made");
	ok(all_of(gck_cuda_slab_of(s->base + SIZE - 1) == s, !all_free()),
	   "it has addresses of its own");
	gck_cuda_slab_drop(s);
	ok(all_free(), "they are free after it is freed");
	return tap_done();
}
