/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: virtual memory management, and memory between processes. A handle is the address
 * of its struct fake_memory. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct reservation {
	struct reservation *next;
	CUdeviceptr base;
	size_t size;
} *reservations, *kept; /* kept: of drivers before this one */

static struct fake_memory *memory_of(CUmemGenericAllocationHandle handle)
{
	return (struct fake_memory *)(uintptr_t)handle;
}

static bool is_granular(CUdeviceptr address, size_t size)
{
	return size && size % FAKE_GRANULARITY == 0 && address % FAKE_GRANULARITY == 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static void *reserve_at(CUdeviceptr want, size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *at = MAP_FAILED;
	uintptr_t start;

	for (const struct reservation *r = kept; r; r = r->next) {
		if (r->base == want && r->size == size)
			return (void *)(uintptr_t)want;
	}
	if (want)
		at = mmap((void *)(uintptr_t)want, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1,
			  0);
	if (at != MAP_FAILED)
		return at;
	at = mmap(NULL, size + FAKE_GRANULARITY, PROT_NONE, flags, -1, 0);
	if (at == MAP_FAILED)
		return at;
	start = ((uintptr_t)at + FAKE_GRANULARITY - 1) / FAKE_GRANULARITY * FAKE_GRANULARITY;
	if (start > (uintptr_t)at)
		munmap(at, start - (uintptr_t)at);
	munmap((void *)(start + size), (uintptr_t)at + FAKE_GRANULARITY - start);
	return (void *)start;
}

/* If the requested address is not free, another one is returned, as by the driver. */
CUresult fake_cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
				  CUdeviceptr want, unsigned long long flags)
{
	struct reservation *r;
	void *at;

	(void)alignment;
	if (flags || !is_granular(want, size))
		return CUDA_ERROR_INVALID_VALUE;
	at = reserve_at(want, size);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = (CUdeviceptr)(uintptr_t)at;
	r = calloc(1, sizeof *r);
	fake_lock();
	*r = (struct reservation){.next = reservations, .base = *address, .size = size};
	reservations = r;
	fake_unlock();
	return CUDA_SUCCESS;
}

static bool is_mapped_in(CUdeviceptr address, size_t size)
{
	for (const struct fake_block *b = fake_blocks; b; b = b->next) {
		if (b->base < address + size && address < b->base + b->mapped)
			return true;
	}
	return false;
}

CUresult fake_cuMemAddressFree(CUdeviceptr address, size_t size)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct reservation **at, *r;

	fake_lock();
	for (at = &reservations; *at && ((*at)->base != address || (*at)->size != size);)
		at = &(*at)->next;
	r = *at;
	if (r && !is_mapped_in(address, size)) {
		*at = r->next;
		munmap((void *)(uintptr_t)address, size);
		free(r);
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

/* Nothing else takes their addresses: only one like it gets them again. */
void fake_reservations_anew(void)
{
	struct reservation *r;

	while ((r = reservations)) {
		reservations = r->next;
		r->next = kept;
		kept = r;
		mmap((void *)(uintptr_t)r->base, r->size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	}
}

/* ---- physical memory ------------------------------------------------------------------------ */

CUresult fake_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					    CUmemAllocationGranularity_flags option)
{
	(void)option;
	*granularity = FAKE_GRANULARITY;
	return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? fake_device(prop->location.id)
								  : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			  const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct fake_memory *m;
	CUresult rc;

	if (flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || !is_granular(0, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_device(prop->location.id))
		return fake_device(prop->location.id);
	fake_lock();
	fake.host_memory |= prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	m = fake_memory_new(size, prop->location.id, &rc);
	if (m)
		m->prop = *prop;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
	fake_unlock();
	return rc;
}

CUresult fake_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	fake_lock();
	fake_memory_drop(memory_of(handle));
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						     CUmemGenericAllocationHandle handle)
{
	*prop = memory_of(handle)->prop;
	return CUDA_SUCCESS;
}

CUresult fake_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	struct fake_block *b;
	bool there;

	fake_lock();
	b = fake_find((CUdeviceptr)(uintptr_t)address);
	there = b && (b->kind == FAKE_VMM || b->kind == FAKE_IMPORTED);
	if (there) {
		b->memory->uses++;
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)b->memory;
	}
	fake_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mapping -------------------------------------------------------------------------------- */

static bool is_reserved(CUdeviceptr address, size_t size)
{
	const struct reservation *r = reservations;

	while (r && (address < r->base || address + size > r->base + r->size))
		r = r->next;
	return r != NULL;
}

CUresult fake_cuMemMap(CUdeviceptr address, size_t size, size_t offset,
		       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct fake_memory *m = memory_of(handle);
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct fake_block *b;

	if ((offset || size < m->size) && !getenv("FAKE_CUDA_PARTS"))
		return CUDA_ERROR_NOT_SUPPORTED;
	fake_lock();
	if (!flags && is_granular(address, size) && offset % FAKE_GRANULARITY == 0 &&
	    offset + size <= m->size && is_reserved(address, size) &&
	    !is_mapped_in(address, size)) {
		mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd,
		     (off_t)offset);
		m->uses++;
		b = fake_block_new(m, address, size, m->imported ? FAKE_IMPORTED : FAKE_VMM);
		b->offset = offset;
		rc = CUDA_SUCCESS;
	}
	fake_unlock();
	return rc;
}

/* Unmaps only whole mappings. */
CUresult fake_cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUdeviceptr at = address;
	struct fake_block *b;

	fake_lock();
	while (at < address + size) {
		b = fake_find(at);
		if (!b || b->base != at || b->base + b->size > address + size)
			break;
		mmap((void *)(uintptr_t)at, b->size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		at += b->size;
		fake_block_free(b);
	}
	fake_unlock();
	return at == address + size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int fake_rights(const struct fake_block *b)
{
	return (b->readable ? PROT_READ : PROT_NONE) | (b->writable ? PROT_WRITE : PROT_NONE);
}

static void allow(struct fake_block *b, const CUmemAccessDesc *access, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t bit = 1ull << access[i].location.id;

		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue; /* the CPU always has access */
		b->readable = access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? b->readable | bit
									  : b->readable & ~bit;
		b->writable = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				      ? b->writable | bit
				      : b->writable & ~bit;
	}
	mprotect((void *)(uintptr_t)b->base, b->size, fake_rights(b));
}

/* Sets access only of whole mappings. Devices that are not named keep their access. */
CUresult fake_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
			     size_t n)
{
	CUdeviceptr at = address;
	struct fake_block *b;

	fake_lock();
	for (; at < address + size; at += b->size) {
		b = fake_find(at);
		if (!b || b->base != at || b->base + b->size > address + size)
			break;
	}
	for (CUdeviceptr done = address; at == address + size && done < at; done += b->size) {
		b = fake_find(done);
		allow(b, access, n);
	}
	fake_unlock();
	return at == address + size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			     CUdeviceptr address)
{
	const struct fake_block *b;

	fake_lock();
	b = fake_find(address);
	if (b)
		*flags = b->writable >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			 : b->readable >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
							   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	fake_unlock();
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- between processes ---------------------------------------------------------------------- */

/* Imported memory cannot be exported again. */
CUresult fake_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
					   CUmemAllocationHandleType type, unsigned long long flags)
{
	struct fake_memory *m = memory_of(handle);

	if (flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || m->imported ||
	    !(m->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareable = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	m->exported = true;
	return *(int *)shareable >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

struct fake_memory *fake_memory_import(int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct fake_memory *m;
	struct stat st;

	if (own < 0 || fstat(own, &st))
		return NULL;
	m = fake_memory_of(own, (size_t)st.st_size, fake_memory_device(own));
	m->imported = true;
	m->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	m->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	m->prop.location.id = m->device;
	return m;
}

/* The kernel's number of the device that memory is of. The real driver asks for it like this. */
static unsigned ask_kernel(int fd)
{
	struct {
		int fd;
		unsigned instance, more[20];
	} info = {.fd = fd, .instance = fake_node_instance(fake_memory_device(fd))};
	struct {
		unsigned client, object, command, flags;
		uint64_t arguments;
		unsigned size, status;
	} control = {.command = 0x3d08, .arguments = (uintptr_t)&info, .size = sizeof info};

	ioctl(fd, _IOWR('F', 0x2a, control), &control);
	return info.instance;
}

CUresult fake_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
					     CUmemAllocationHandleType type)
{
	struct fake_memory *m;
	CUdevice device;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	fake_lock();
	device = fake_node_first(ask_kernel((int)(intptr_t)os_handle));
	m = device < 0 ? NULL : fake_memory_import((int)(intptr_t)os_handle);
	if (m)
		m->prop.location.id = device;
	fake_unlock();
	if (device < 0)
		return CUDA_ERROR_NOT_INITIALIZED;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)m;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct fake_ipc ipc = {.pid = getpid()};
	struct fake_block *b;

	fake_lock();
	b = fake_find(address);
	if (b && b->kind == FAKE_DEVICE) {
		ipc.fd = b->memory->fd;
		ipc.size = b->size;
		b->memory->exported = true;
	}
	fake_unlock();
	memset(handle, 0, sizeof *handle);
	memcpy(handle->reserved, &ipc, sizeof ipc);
	return ipc.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	struct fake_memory *m = NULL;
	char path[64];
	struct fake_ipc ipc;
	void *at;
	int fd;

	(void)flags;
	memcpy(&ipc, handle.reserved, sizeof ipc);
	if (ipc.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", ipc.pid, ipc.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	fake_lock();
	if (fd >= 0 && (m = fake_memory_import(fd))) {
		at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
		*address = (CUdeviceptr)(uintptr_t)at;
		fake_block_new(m, *address, ipc.size, FAKE_IMPORTED);
	}
	fake_unlock();
	if (fd >= 0)
		close(fd);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct fake_block *b;
	bool there;

	fake_lock();
	b = fake_find(address);
	there = b && b->kind == FAKE_IMPORTED;
	if (there) {
		munmap((void *)(uintptr_t)b->base, b->mapped);
		fake_block_free(b);
	}
	fake_unlock();
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
