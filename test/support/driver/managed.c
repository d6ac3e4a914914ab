/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: managed memory, and the advice about each of its pages. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define ALIGNED ((size_t)32 << 20) /* its addresses are multiples of it */

struct fake_page {
	int preferred, sent;       /* CU_DEVICE_INVALID: nowhere */
	unsigned int accessed_by;  /* bit 0: the CPU, others: devices from 0 on */
	bool read_mostly;
};

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Map a file in which every address has its own offset, as in the driver's file. A child does not
 * get it. */
static void *map_file(void *at, size_t size)
{
	int fd = memfd_create("fake-uvm", MFD_CLOEXEC);
	void *got = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)((uintptr_t)at + size)) == 0)
		got = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   (off_t)(uintptr_t)at);
	close(fd);
	if (got != MAP_FAILED)
		madvise(got, size, MADV_DONTFORK);
	return got;
}

/* Map as the driver does: reserve enough addresses to align in, unmap those that are not needed,
 * and map the memory. A hook of its calls to libc can choose the address. */
void *fake_map_managed(size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	size_t aligned = round_up(size, ALIGNED), reserved = aligned + ALIGNED - PAGE, head;
	char *start, *at, *got;

	if (getenv("FAKE_CUDA_MANAGED"))
		return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start = mmap(NULL, reserved, PROT_NONE, flags, -1, 0);
	at = (char *)round_up((size_t)start, ALIGNED);
	head = (size_t)(at - start);
	if (head)
		munmap(start, head);
	if (reserved > head + aligned)
		munmap(at + aligned, reserved - head - aligned);
	got = map_file(at, aligned);
	if (got == MAP_FAILED)
		fake_unmap_managed(at, size);
	return got;
}

/* Map a reservation over it first, so that the memory is gone before the unmap. */
void fake_unmap_managed(void *at, size_t size)
{
	size_t aligned = getenv("FAKE_CUDA_MANAGED") ? size : round_up(size, ALIGNED);

	mmap(at, aligned, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	munmap(at, aligned);
}

CUresult fake_cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_allocate(address, size, FAKE_MANAGED);
}

/* ---- advice --------------------------------------------------------------------------------- */

static struct fake_page *pages_of(struct fake_block *b)
{
	size_t n = b->mapped / PAGE;

	if (b->pages)
		return b->pages;
	b->pages = calloc(n, sizeof *b->pages);
	for (size_t i = 0; i < n; i++)
		b->pages[i] = (struct fake_page){.preferred = CU_DEVICE_INVALID,
						 .sent = CU_DEVICE_INVALID};
	return b->pages;
}

/* The pages that a range touches; NULL: it is not in managed memory. With the lock. */
static struct fake_page *pages(CUdeviceptr address, size_t size, size_t *n)
{
	struct fake_block *b = fake_find(address);

	if (!b || b->kind != FAKE_MANAGED || !size || address + size > b->base + b->mapped)
		return NULL;
	*n = (address + size - 1 - b->base) / PAGE - (address - b->base) / PAGE + 1;
	return pages_of(b) + (address - b->base) / PAGE;
}

static int device_of(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

static void advise(struct fake_page *p, CUmem_advise advice, int device)
{
	unsigned int bit = 1u << (device + 1);

	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		p->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		p->preferred = device;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		p->preferred = CU_DEVICE_INVALID;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		p->accessed_by |= bit;
		break;
	default:
		p->accessed_by &= ~bit;
	}
}

CUresult fake_cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
			     CUmemLocation location)
{
	struct fake_page *p;
	size_t n = 0;

	fake_lock();
	p = pages(address, size, &n);
	for (size_t i = 0; i < n; i++)
		advise(&p[i], advice, device_of(location));
	fake_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUmemLocation location_of(CUdevice device)
{
	return (CUmemLocation){.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
							       : CU_MEM_LOCATION_TYPE_DEVICE,
			       .id = device};
}

CUresult fake_cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device)
{
	return fake_cuMemAdvise_v2(address, size, advice, location_of(device));
}

CUresult fake_cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location,
				    unsigned int flags, CUstream stream)
{
	struct fake_page *p;
	size_t n = 0;

	(void)flags;
	fake_lock();
	p = fake_stream(stream) ? pages(address, size, &n) : NULL;
	for (size_t i = 0; i < n; i++)
		p[i].sent = device_of(location);
	fake_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
	return fake_cuMemPrefetchAsync_v2(address, size, location_of(device), 0, stream);
}

/* All of them, or none. */
CUresult fake_cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t n,
				     unsigned long long flags, CUstream stream)
{
	bool good = n && !flags && stream != CU_STREAM_LEGACY && (stream || fake_per_thread());
	size_t unused;

	fake_lock();
	good = good && fake_stream(stream);
	for (size_t i = 0; good && i < n; i++)
		good = pages(addresses[i], sizes[i], &unused) != NULL;
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t n,
				      CUmemLocation *locations, size_t *firsts, size_t nlocations,
				      unsigned long long flags, CUstream stream)
{
	bool good = nlocations && nlocations <= n && firsts[0] == 0 && firsts[nlocations - 1] < n;
	CUresult rc;

	for (size_t k = 1; good && k < nlocations; k++)
		good = firsts[k] > firsts[k - 1];
	rc = good ? fake_cuMemDiscardBatchAsync(addresses, sizes, n, flags, stream)
		  : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0, k = 0; rc == CUDA_SUCCESS && i < n; i++) {
		k += k + 1 < nlocations && firsts[k + 1] == i;
		rc = fake_cuMemPrefetchAsync_v2(addresses[i], sizes[i], locations[k], 0, stream);
	}
	return rc;
}

CUresult fake_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t n,
						CUmemLocation *locations, size_t *firsts,
						size_t nlocations, unsigned long long flags,
						CUstream stream)
{
	return fake_cuMemPrefetchBatchAsync(addresses, sizes, n, locations, firsts, nlocations,
					    flags, stream);
}

/* An attribute of one page, as a number. */
static int value_of(const struct fake_page *p, CUmem_range_attribute which)
{
	return which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY              ? p->read_mostly
	       : which == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION     ? p->preferred
	       : which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ? p->sent
									: (int)p->accessed_by;
}

/* The value that all pages have in common. CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: only the first
 * device, if any. */
CUresult fake_cuMemRangeGetAttribute(void *data, size_t data_size, CUmem_range_attribute which,
				     CUdeviceptr address, size_t size)
{
	const struct fake_page *p;
	int *value = data;
	size_t n = 0;
	bool same = true;

	fake_lock();
	p = pages(address, size, &n);
	for (size_t i = 1; i < n; i++)
		same &= value_of(&p[i], which) == value_of(&p[0], which);
	if (p && data_size >= sizeof *value) {
		*value = value_of(p, which);
		if (!same)
			*value = which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY
					 ? 0
					 : CU_DEVICE_INVALID;
		else if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
			*value = *value ? __builtin_ctz((unsigned)*value) - 1 : CU_DEVICE_INVALID;
	}
	fake_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only of whole allocations. */
CUresult fake_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size,
				     unsigned int flags)
{
	const struct fake_block *b;
	bool good;

	fake_lock();
	b = fake_find(address);
	good = fake_stream(stream) && b && b->kind == FAKE_MANAGED && b->base == address &&
	       (!size || size == b->size) && flags && !(flags & (flags - 1)) && flags <= 4;
	fake_unlock();
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
