/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/slab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/keep.h"
#include "shim/cuda/real.h"
#include "shim/cuda/thread.h"

#define REGION 0x600000000000ull
#define REGION_SIZE (1ull << 44) /* the driver grants no more */
#define DEVICES 64

struct gck_cuda_slabs gck_cuda_slabs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_arena region;    /* which addresses have slabs */
static uint64_t allowed[DEVICES];       /* by device: others that may use its memory */

void gck_cuda_slabs_lock(void)
{
	pthread_mutex_lock(&lock);
}

void gck_cuda_slabs_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- the region ----------------------------------------------------------------------------- */

static CUresult reserve(void)
{
	CUdeviceptr got = 0;
	CUresult rc = gck_cuda_real.cuMemAddressReserve(&got, REGION_SIZE, 0, REGION, 0);

	if (rc)
		return rc;
	if (got == REGION)
		return CUDA_SUCCESS;
	gck_cuda_real.cuMemAddressFree(got, REGION_SIZE);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult begin(void)
{
	static CUresult failed;

	if (region.v || failed)
		return failed;
	failed = reserve() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	if (!failed && gck_cuda_arena_init(&region, REGION, REGION_SIZE, GCK_CUDA_SLAB_UNIT))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return failed;
}

/* ---- memory below it ------------------------------------------------------------------------ */

static CUresult create(struct gck_cuda_slab *s)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = s->device},
	};
	int rdma = 0;

	gck_cuda_real.cuDeviceGetAttribute(&rdma,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, s->device);
	prop.allocFlags.gpuDirectRDMACapable = rdma != 0;
	return gck_cuda_real.cuMemCreate(&s->handle, s->size, &prop, 0);
}

static CUresult set_access(const struct gck_cuda_slab *s)
{
	CUmemAccessDesc access[DEVICES + 1];
	size_t n = 0;

	for (int d = 0; d < DEVICES; d++) {
		if (d == s->device || (s->device < DEVICES && allowed[s->device] >> d & 1))
			access[n++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d},
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	}
	return gck_cuda_real.cuMemSetAccess(s->base, s->size, access, n);
}

static CUresult map(struct gck_cuda_slab *s)
{
	CUresult rc = gck_cuda_real.cuMemMap(s->base, s->size, 0, s->handle, 0);

	if (rc)
		return rc;
	rc = set_access(s);
	s->mapped = rc == CUDA_SUCCESS;
	if (rc)
		gck_cuda_real.cuMemUnmap(s->base, s->size);
	return rc;
}

static CUresult keep(const struct gck_cuda_slab *s)
{
	int fd = -1;
	CUresult rc = gck_cuda_real.cuMemExportToShareableHandle(&fd, s->handle,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	return rc ? rc : gck_cuda_keep(s->serial, fd) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* Memory with its descriptor in flight, mapped; or nothing. */
static CUresult provide(struct gck_cuda_slab *s)
{
	CUresult rc = create(s);

	if (rc)
		return rc;
	rc = keep(s);
	if (!rc) {
		rc = map(s);
		if (rc)
			gck_cuda_keep_drop(s->serial);
	}
	if (rc)
		gck_cuda_real.cuMemRelease(s->handle);
	return rc;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static size_t place(uint64_t address)
{
	size_t low = 0, high = gck_cuda_slabs.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (gck_cuda_slabs.v[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low; /* the first behind the address */
}

static int list(struct gck_cuda_slab *s)
{
	struct gck_cuda_slabs *all = &gck_cuda_slabs;
	size_t room = all->room ? 2 * all->room : 16, at;
	struct gck_cuda_slab **v;

	if (all->n == all->room) {
		v = realloc(all->v, room * sizeof *v);
		if (!v)
			return -1;
		all->v = v;
		all->room = room;
	}
	at = place(s->base);
	memmove(&all->v[at + 1], &all->v[at], (all->n - at) * sizeof *all->v);
	all->v[at] = s;
	all->n++;
	return 0;
}

static void unlist(const struct gck_cuda_slab *s)
{
	size_t at = place(s->base) - 1;

	gck_cuda_slabs.n--;
	memmove(&gck_cuda_slabs.v[at], &gck_cuda_slabs.v[at + 1],
		(gck_cuda_slabs.n - at) * sizeof *gck_cuda_slabs.v);
}

CUresult gck_cuda_slab_new(CUdevice device, uint64_t size, struct gck_cuda_slab **slab)
{
	static uint64_t serial;
	struct gck_cuda_slab *s;
	const struct gck_cuda_piece *where;
	CUresult rc = begin();

	if (rc)
		return rc;
	where = gck_cuda_arena_take(&region, size);
	s = where ? calloc(1, sizeof *s) : NULL;
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*s = (struct gck_cuda_slab){.base = where->base, .size = size, .device = device,
				    .serial = ++serial};
	rc = gck_cuda_arena_init(&s->arena, s->base, size, 1 << 16) || list(s)
	     ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	if (!rc) {
		rc = provide(s);
		if (rc)
			unlist(s);
	}
	if (!rc) {
		gck_cuda_state.device_bytes += size;
		*slab = s;
		return CUDA_SUCCESS;
	}
	gck_cuda_arena_give(&region, s->base);
	gck_cuda_arena_free(&s->arena);
	free(s);
	return rc;
}

void gck_cuda_slab_drop(struct gck_cuda_slab *s)
{
	gck_cuda_slab_unmap(s);
	gck_cuda_keep_drop(s->serial);
	if (s->host)
		munmap(s->host, s->size);
	unlist(s);
	gck_cuda_state.device_bytes -= s->size;
	gck_cuda_arena_give(&region, s->base);
	gck_cuda_arena_free(&s->arena);
	free(s);
}

struct gck_cuda_slab *gck_cuda_slab_of(uint64_t address)
{
	size_t at = address >= REGION && address - REGION < REGION_SIZE ? place(address) : 0;
	struct gck_cuda_slab *s = at ? gck_cuda_slabs.v[at - 1] : NULL;

	return s && address - s->base < s->size ? s : NULL;
}

CUresult gck_cuda_slab_unmap(struct gck_cuda_slab *s)
{
	CUresult rc = s->mapped ? gck_cuda_real.cuMemUnmap(s->base, s->size) : CUDA_SUCCESS;

	if (rc || !s->mapped)
		return rc;
	s->mapped = false;
	return gck_cuda_real.cuMemRelease(s->handle);
}

CUresult gck_cuda_slab_map(struct gck_cuda_slab *s)
{
	int fd = gck_cuda_keep_get(s->serial);
	CUresult rc;

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	rc = gck_cuda_real.cuMemImportFromShareableHandle(&s->handle, (void *)(intptr_t)fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	if (rc)
		return rc;
	rc = map(s);
	if (rc)
		gck_cuda_real.cuMemRelease(s->handle);
	return rc;
}

/* The reservation is the driver's, and came with it. */
CUresult gck_cuda_slabs_renew(void)
{
	CUresult rc = CUDA_SUCCESS;

	gck_cuda_keep_forget();
	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_slabs.n; i++)
		rc = provide(gck_cuda_slabs.v[i]);
	return rc;
}

CUresult gck_cuda_slab_allow(CUdevice device, CUdevice peer, bool may)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
				  .flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					       : CU_MEM_ACCESS_FLAGS_PROT_NONE};
	CUresult rc = CUDA_SUCCESS;

	if (device >= DEVICES || peer >= DEVICES)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (may)
		allowed[device] |= 1ull << peer;
	else
		allowed[device] &= ~(1ull << peer);
	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_slabs.n; i++) {
		const struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		if (s->device == device && s->mapped)
			rc = gck_cuda_real.cuMemSetAccess(s->base, s->size, &access, 1);
	}
	return rc;
}
