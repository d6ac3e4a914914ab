/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: memory. Device memory is a memfd that is mapped at its device address. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

struct fake_block *fake_blocks;

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- physical ------------------------------------------------------------------------------- */

static struct fake_memory *memories;

struct fake_memory *fake_memory_of(int fd, size_t size, CUdevice device)
{
	struct fake_memory *m = calloc(1, sizeof *m);

	*m = (struct fake_memory){
		.next = memories, .fd = fd, .size = size, .device = device, .uses = 1};
	memories = m;
	fake.used[device] += size;
	return m;
}

struct fake_memory *fake_memory_new(size_t size, CUdevice device, CUresult *rc)
{
	int fd = fake_memory_file(device, size);

	*rc = fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	return fd < 0 ? NULL : fake_memory_of(fd, size, device);
}

static void *free_late(void *arg)
{
	struct fake_memory *m = arg;

	usleep((useconds_t)atoi(getenv("FAKE_CUDA_LATE")) * 1000);
	fake_lock();
	fake.used[m->device] -= m->size;
	fake_unlock();
	free(m);
	return NULL;
}

void fake_memory_drop(struct fake_memory *m)
{
	struct fake_memory **at = &memories;
	pthread_t thread;

	if (--m->uses)
		return;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	close(m->fd);
	if (m->exported && getenv("FAKE_CUDA_LATE") &&
	    !pthread_create(&thread, NULL, free_late, m)) {
		pthread_detach(thread);
		return;
	}
	fake.used[m->device] -= m->size;
	free(m);
}

/* ---- mapped --------------------------------------------------------------------------------- */

struct fake_block *fake_find(CUdeviceptr address)
{
	struct fake_block *b = fake_blocks;

	while (b && (address < b->base || address >= b->base + (b->size ? b->size : 1)))
		b = b->next;
	return b;
}

struct fake_block *fake_block_new(struct fake_memory *m, CUdeviceptr at, size_t size,
				  enum fake_kind kind)
{
	struct fake_block *b = calloc(1, sizeof *b);

	*b = (struct fake_block){.base = at,
				 .size = size,
				 .mapped = round_up(size, PAGE),
				 .kind = kind,
				 .id = ++fake.ids,
				 .memory = m,
				 .context = fake_current(),
				 .next = fake_blocks,
				 .device = m                ? m->device
					   : fake_current() ? fake_current()->device
							    : 0};
	fake_blocks = b;
	return b;
}

void fake_block_free(struct fake_block *b)
{
	struct fake_block **at = &fake_blocks;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	if (b->memory)
		fake_memory_drop(b->memory);
	free(b->pages);
	free(b);
}

static void *map_shared(const struct fake_memory *m, void *at, size_t size, size_t offset)
{
	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), m->fd,
		    (off_t)offset);
}

CUresult fake_allocate(CUdeviceptr *address, size_t size, enum fake_kind kind)
{
	struct fake_memory *m;
	CUresult rc;
	void *at;

	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	rc = fake_not_in_capture();
	m = rc ? NULL : fake_memory_new(round_up(size, PAGE), fake_current()->device, &rc);
	if (m) {
		at = kind == FAKE_MANAGED ? fake_map_managed(size)
					  : map_shared(m, NULL, m->size, 0);
		if (at == MAP_FAILED) {
			fake_memory_drop(m);
			rc = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			*address = (CUdeviceptr)(uintptr_t)at;
			fake_block_new(m, *address, size, kind);
		}
	}
	fake_unlock();
	return rc;
}

void fake_unmap(struct fake_block *b)
{
	if (b->kind == FAKE_MANAGED)
		fake_unmap_managed((void *)(uintptr_t)b->base, b->mapped);
	else
		munmap((void *)(uintptr_t)b->base, b->mapped);
	fake_block_free(b);
}

void fake_context_blocks_end(CUcontext context)
{
	struct fake_block *next;

	for (struct fake_block *b = fake_blocks; b; b = next) {
		next = b->next;
		if (b->context == context && (b->kind == FAKE_DEVICE || b->kind == FAKE_MANAGED))
			fake_unmap(b);
	}
}

static CUresult give_back(CUdeviceptr address, enum fake_kind kind)
{
	struct fake_block *b;
	CUresult rc = CUDA_SUCCESS;

	fake_lock();
	b = fake_find(address);
	if (b && b->base == address && !b->freed &&
	    (b->kind == kind ||
	     (kind == FAKE_DEVICE && (b->kind == FAKE_MANAGED || b->kind == FAKE_EXTERNAL)))) {
		fake_pool_free(b);
		fake_unmap(b);
	} else {
		rc = CUDA_ERROR_INVALID_VALUE;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	return fake_allocate(address, size, FAKE_DEVICE);
}

CUresult fake_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
				 unsigned int element)
{
	(void)element;
	*pitch = round_up(width, 512);
	return fake_allocate(address, *pitch * height, FAKE_DEVICE);
}

/* Waits for the context's work first, as the driver does; in relaxed mode also during a capture. */
CUresult fake_cuMemFree_v2(CUdeviceptr address)
{
	CUresult rc;

	fake_lock();
	rc = fake_not_in_capture();
	while (!rc && fake_current() && !fake_all_idle(fake_current()))
		fake_wait();
	if (!rc && fake_current())
		rc = fake_current()->broken;
	fake_unlock();
	return rc || !address ? rc : give_back(address, FAKE_DEVICE);
}

CUresult fake_cuMemGetInfo_v2(size_t *available, size_t *total)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_lock();
	*total = fake.seen.v[fake_current()->device].memory;
	*available = *total - fake_used(fake_current()->device);
	fake_unlock();
	return CUDA_SUCCESS;
}

/* Memory without access is not found. */
CUresult fake_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	const struct fake_block *b;

	fake_lock();
	b = fake_find(address);
	if (b && (b->kind == FAKE_VMM || b->kind == FAKE_IMPORTED) && !b->readable)
		b = NULL;
	if (b && base)
		*base = b->base;
	if (b && size)
		*size = b->size;
	fake_unlock();
	return b ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- host ----------------------------------------------------------------------------------- */

CUresult fake_cuMemHostAlloc(void **address, size_t size, unsigned int flags)
{
	struct fake_block *b;

	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*address = mmap(NULL, round_up(size, PAGE), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	if (*address == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fake_lock();
	b = fake_block_new(NULL, (CUdeviceptr)(uintptr_t)*address, size, FAKE_HOST);
	b->flags = flags;
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuMemAllocHost_v2(void **address, size_t size)
{
	return fake_cuMemHostAlloc(address, size, 0);
}

/* Waits, as the driver does: a copy from there may be under way. */
CUresult fake_cuMemFreeHost(void *address)
{
	fake_lock();
	while (!fake_all_idle(NULL))
		fake_wait();
	fake_unlock();
	return give_back((CUdeviceptr)(uintptr_t)address, FAKE_HOST);
}

CUresult fake_cuMemHostRegister_v2(void *address, size_t size, unsigned int flags)
{
	CUresult rc = CUDA_SUCCESS;
	struct fake_block *b;

	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_lock();
	b = fake_find((CUdeviceptr)(uintptr_t)address);
	if (b) {
		rc = b->kind == FAKE_HOST ? CUDA_ERROR_INVALID_VALUE
					  : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	} else {
		b = fake_block_new(NULL, (CUdeviceptr)(uintptr_t)address, size, FAKE_REGISTERED);
		b->flags = flags;
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuMemHostUnregister(void *address)
{
	struct fake_block *b;
	bool there;

	fake_lock();
	b = fake_find((CUdeviceptr)(uintptr_t)address);
	there = b && b->kind == FAKE_REGISTERED && b->base == (CUdeviceptr)(uintptr_t)address;
	if (there)
		fake_block_free(b);
	fake_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult host_block(const void *address, const struct fake_block **b)
{
	*b = fake_find((CUdeviceptr)(uintptr_t)address);
	return *b && ((*b)->kind == FAKE_HOST || (*b)->kind == FAKE_REGISTERED)
	       ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned int flags)
{
	const struct fake_block *b;
	CUresult rc;

	(void)flags;
	fake_lock();
	rc = host_block(address, &b);
	fake_unlock();
	*device = (CUdeviceptr)(uintptr_t)address;
	return rc;
}

CUresult fake_cuMemHostGetFlags(unsigned int *flags, void *address)
{
	const struct fake_block *b;
	CUresult rc;

	fake_lock();
	rc = host_block(address, &b);
	if (!rc)
		*flags = b->flags;
	fake_unlock();
	return rc;
}

/* The structs of physical memory stay: their handles are not used again. */
void fake_blocks_anew(void)
{
	struct fake_block *b;

	while ((b = fake_blocks)) {
		fake_blocks = b->next;
		if (b->kind != FAKE_VMM && b->kind != FAKE_REGISTERED)
			munmap((void *)(uintptr_t)b->base, b->mapped);
		free(b->pages);
		free(b);
	}
	for (; memories; memories = memories->next) {
		fake.used[memories->device] -= memories->size;
		close(memories->fd);
	}
}

/* ---- the driver's checkpoint ---------------------------------------------------------------- */

bool fake_blocks_have(enum fake_kind kind)
{
	const struct fake_block *b = fake_blocks;

	while (b && b->kind != kind)
		b = b->next;
	return b != NULL;
}

/* Make it inaccessible: a thread that touches it dies. Write-combined host memory is the driver's
 * too. */
void fake_blocks_save(void)
{
	for (struct fake_block *b = fake_blocks; b; b = b->next) {
		void *at = (void *)(uintptr_t)b->base;

		if (!b->memory && !(b->flags & CU_MEMHOSTALLOC_WRITECOMBINED))
			continue;
		b->saved = malloc(b->mapped);
		mprotect(at, b->mapped, PROT_READ);
		memcpy(b->saved, at, b->mapped);
		mmap(at, b->mapped, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	}
	for (const struct fake_block *b = fake_blocks; b; b = b->next) {
		if (b->saved && b->memory && !b->memory->exported && ftruncate(b->memory->fd, 0))
			abort(); /* memory that is mapped twice was saved twice */
	}
}

void fake_blocks_restore(void)
{
	for (struct fake_block *b = fake_blocks; b; b = b->next) {
		void *at = (void *)(uintptr_t)b->base;

		if (!b->saved)
			continue;
		if (!b->memory)
			mprotect(at, b->mapped, PROT_READ | PROT_WRITE);
		else if (ftruncate(b->memory->fd, (off_t)b->memory->size) ||
			 map_shared(b->memory, at, b->mapped, b->offset) == MAP_FAILED)
			abort();
		memcpy(at, b->saved, b->mapped);
		free(b->saved);
		b->saved = NULL;
		if (b->kind == FAKE_VMM)
			mprotect(at, b->mapped, fake_rights(b));
	}
}
