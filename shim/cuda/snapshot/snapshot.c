/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/memory/free_bytes.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/real.h"
#include "shim/cuda/gate/prefault.h"
#include "shim/cuda/vmm/vmm.h"
#include "shim/link.h"

#define BLOCK ((uint64_t)2 << 30) /* large blocks are few to map and unmap */

struct gck_cuda_snapshot gck_cuda_snapshot;

/* ---- what is copied ------------------------------------------------------------------------- */

/* Append an element of `size` bytes; NULL: no memory. */
static void *more(void **v, size_t *n, size_t *capacity, size_t size)
{
	if (*n == *capacity) {
		size_t wanted = *capacity ? 2 * *capacity : 16;
		void *w = realloc(*v, wanted * size);

		if (!w)
			return NULL;
		*v = w;
		*capacity = wanted;
	}
	return (char *)*v + size * (*n)++;
}

/* Add an extent. It is joined to its neighbour, except to those before index `first`. */
static int add(struct gck_cuda_snapshot *to, size_t first, CUdevice device, uint64_t address,
	       uint64_t size)
{
	struct gck_cuda_extent *e = to->n > first ? &to->v[to->n - 1] : NULL;

	if (e && e->device == device && e->address + e->size == address) {
		e->size += size;
		return 0;
	}
	e = more((void **)&to->v, &to->n, &to->capacity, sizeof *to->v);
	if (!e)
		return -1;
	*e = (struct gck_cuda_extent){.address = address, .size = size, .device = device};
	return 0;
}

static int add_own(void *arg, CUdevice device, uint64_t address, uint64_t size)
{
	return add(arg, 0, device, address, size); /* they are the first of the list */
}

static int by_address(const void *a, const void *b)
{
	const struct gck_cuda_extent *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Suballocations consist of whole pages; bytes at their end that nobody asked for are copied,
 * too. */
static int list_taken(struct gck_cuda_snapshot *to)
{
	if (gck_cuda_vmm_each(add_own, to))
		return -1;
	for (size_t i = 0; i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];
		size_t first = to->n;

		for (size_t k = 0; k < s->arena.n; k++) {
			const struct gck_cuda_suballocation *p = &s->arena.v[k];

			if (p->requested && add(to, first, s->device, p->base, p->size))
				return -1;
		}
	}
	if (to->n)
		qsort(to->v, to->n, sizeof *to->v, by_address);
	return 0;
}

/* ---- memory on devices ---------------------------------------------------------------------- */

/* The first place from `at` on for a copy of the address: it must lie in the store's chunks as
 * the original does, so that its hashes compare. */
static uint64_t fit(uint64_t at, uint64_t address)
{
	return at + (address - at) % GCK_LINK_DATA_PAGE_GROUP;
}

static uint64_t bytes_of(const struct gck_cuda_snapshot *of, CUdevice device)
{
	uint64_t at = 0;

	for (size_t i = 0; i < of->n; i++) {
		if (of->v[i].device == device)
			at = fit(at, of->v[i].address) + of->v[i].size;
	}
	return at;
}

static struct gck_cuda_share *share_of(const struct gck_cuda_snapshot *of, CUdevice device)
{
	for (size_t i = 0; i < of->nshares; i++) {
		if (of->shares[i].device == device)
			return &of->shares[i];
	}
	return NULL;
}

/* Make blocks for up to `size` bytes. A failure is no error: the rest goes to host memory. */
static void provide(struct gck_cuda_snapshot *to, struct gck_cuda_share *share, uint64_t size)
{
	while (share->size < size) {
		struct gck_cuda_slab *b = more((void **)&to->blocks, &to->nblocks,
						&to->blocks_capacity, sizeof *to->blocks);

		if (!b)
			return;
		*b = (struct gck_cuda_slab){
			.base = share->base + share->size, .device = share->device,
			.size = size - share->size < BLOCK ? size - share->size : BLOCK};
		if (gck_cuda_slab_provide(b)) {
			to->nblocks--;
			return;
		}
		share->size += b->size;
	}
}

/* Fill the share as far as memory is free, but not beyond `most`. */
static int fill_share(struct gck_cuda_snapshot *to, struct gck_cuda_share *share, uint64_t most,
		      struct gck_error *err)
{
	uint64_t size = bytes_of(to, share->device), available;
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(share->context);

	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	available = gck_cuda_free_bytes();
	available = available < most ? available : most;
	size = size < available ? size + GCK_CUDA_SLAB_UNIT - 1 : available;
	size -= size % GCK_CUDA_SLAB_UNIT;
	share->base = size ? gck_cuda_region_take(size) : 0;
	if (share->base)
		provide(to, share, size);
	gck_cuda_real.cuCtxPopCurrent_v2(&share->context);
	return 0;
}

static CUcontext context_on(const struct gck_cuda_contexts *all, CUdevice device)
{
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i].device == device)
			return all->v[i].context;
	}
	return NULL;
}

static int share_new(struct gck_cuda_snapshot *to, CUdevice device,
		     const struct gck_cuda_order *order, struct gck_error *err)
{
	struct gck_cuda_share *share = more((void **)&to->shares, &to->nshares,
					    &to->shares_capacity, sizeof *to->shares);
	uint64_t most;

	if (!share)
		return gck_fail(err, ENOMEM, "no memory for a list of devices");
	*share = (struct gck_cuda_share){.device = device,
					 .context = context_on(&order->contexts, device)};
	if (!share->context)
		return gck_fail(err, EIO, "device %d has memory and no context", device);
	most = device < GCK_CUDA_DEVICES_MAX ? order->device_copy_max[device] : 0;
	return most ? fill_share(to, share, most, err) : 0;
}

/* ---- what goes where ------------------------------------------------------------------------ */

/* The bytes that a copy at that offset can have in one part, which lies in one block. */
static uint64_t bytes_at(const struct gck_cuda_share *share, uint64_t at, uint64_t size)
{
	uint64_t left = at < share->size ? share->size - at : 0,
		 piece = BLOCK - at % BLOCK;

	left = left < piece ? left : piece;
	return size < left ? size : left;
}

/* Place an extent: a part of it on its device while there is memory behind what is used, the
 * rest in host memory. */
static int place(struct gck_cuda_snapshot *to, struct gck_cuda_extent e, uint64_t *used)
{
	const struct gck_cuda_share *share = share_of(to, e.device);
	struct gck_cuda_extent *part;

	while (e.size) {
		uint64_t at = fit(*used, e.address), on_device = bytes_at(share, at, e.size),
			 n = on_device ? on_device : e.size;

		part = more((void **)&to->v, &to->n, &to->capacity, sizeof *to->v);
		if (!part)
			return -1;
		*part = (struct gck_cuda_extent){.address = e.address,
						 .size = n,
						 .device = e.device,
						 .on_device = on_device,
						 .copy = on_device ? share->base + at
								   : to->host_size};
		if (on_device)
			*used = at + n;
		else
			to->host_size += n;
		e.address += n;
		e.size -= n;
	}
	return 0;
}

static int place_all(struct gck_cuda_snapshot *to)
{
	struct gck_cuda_snapshot from = *to;
	uint64_t *used = calloc(to->nshares + 1, sizeof *used);
	int failed = used ? 0 : -1;

	to->v = NULL;
	to->n = to->capacity = 0;
	for (size_t i = 0; !failed && i < from.n; i++)
		failed = place(to, from.v[i], &used[share_of(to, from.v[i].device) - to->shares]);
	free(used);
	free(from.v);
	return failed;
}

/* The prepared memory may be too small. */
static int grow_host(struct gck_cuda_snapshot *to)
{
	void *at = to->host;

	if (to->host_size <= to->host_capacity)
		return 0;
	at = at ? mremap(at, to->host_capacity, to->host_size, MREMAP_MAYMOVE)
		: gck_cuda_prefault_new(to->host_size);
	if (!at || at == MAP_FAILED)
		return -1;
	to->host = at;
	to->host_capacity = to->host_size;
	return 0;
}

static int too_much(unsigned long long mib, struct gck_error *err)
{
	if (gck_cuda_physical_recalls())
		return gck_fail(err, ENOMEM,
				"%llu MiB of device memory do not fit on the device, and are more "
				"than may be used of the host's: try again, or give the job more "
				"memory",
				mib);
	return gck_fail(err, ENOMEM,
			"after its restart on another GPU all device memory is copied through the "
			"host's, and %llu MiB are more than may be used there: give the job more "
			"memory",
			mib);
}

/* Provide host memory for what does not fit on devices. Managed memory counts against the limit,
 * too. */
static int provide_host(struct gck_cuda_snapshot *to, uint64_t most, struct gck_error *err)
{
	unsigned long long mib = (to->host_size >> 20) + 1;
	uint64_t managed = gck_cuda_managed_bytes();

	if (managed > most || to->host_size > most - managed)
		return too_much(mib, err);
	if (grow_host(to))
		return gck_fail(err, ENOMEM, "no host memory for %llu MiB of the device's", mib);
	for (size_t i = 0; i < to->n; i++)
		to->v[i].copy += to->v[i].on_device ? 0 : (uint64_t)(uintptr_t)to->host;
	return 0;
}

int gck_cuda_snapshot_make(const struct gck_cuda_order *order, struct gck_error *err)
{
	struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	if (list_taken(s))
		return gck_fail(err, ENOMEM, "no memory for a list of device memory");
	for (size_t i = 0; i < s->n; i++) {
		if (!share_of(s, s->v[i].device) && share_new(s, s->v[i].device, order, err))
			return -1;
	}
	if (place_all(s))
		return gck_fail(err, ENOMEM, "no memory for a list of device memory");
	return provide_host(s, order->host_copy_max, err);
}
