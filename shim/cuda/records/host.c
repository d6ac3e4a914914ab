/* SPDX-License-Identifier: Apache-2.0
 * Pinned memory of the host. What the program would get of the driver is memory of its own, which
 * stays as the driver ends, registered with it. It is shared, as the driver's own, so that a fork
 * copies no page of it. */
#include "shim/cuda/records/records.h"

#include <sys/mman.h>

#define KNOWN (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

/* Of a registration these mean the same. */
_Static_assert(CU_MEMHOSTALLOC_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE &&
	       CU_MEMHOSTALLOC_DEVICEMAP == CU_MEMHOSTREGISTER_DEVICEMAP, "the flags");

CUresult gck_record_host_allocate(void **at, size_t size, unsigned flags,
				  gck_record_register *note)
{
	void *p;
	CUresult rc;

	if (!at || !size || flags & ~(unsigned)KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = note(p, size, flags & ~(unsigned)CU_MEMHOSTALLOC_WRITECOMBINED);
	if (rc) {
		munmap(p, size);
		return rc;
	}
	gck_records_lock();
	gck_record_find(GCK_RECORD_HOST, (uintptr_t)p)->allocated = true;
	gck_records_unlock();
	*at = p;
	return CUDA_SUCCESS;
}

static bool is_allocated(const void *p)
{
	const struct gck_record *r;
	bool allocated;

	gck_records_lock();
	r = gck_record_find(GCK_RECORD_HOST, (uintptr_t)p);
	allocated = r && r->allocated;
	gck_records_unlock();
	return allocated;
}

CUresult gck_record_host_free(void *p, gck_record_unregister *note)
{
	return is_allocated(p) ? note(p) : gck_cuda_driver.cuMemFreeHost(p);
}

/* Memory of the driver's own is no such memory that it registers. */
CUresult gck_record_host_register(void *p, size_t size, unsigned flags, gck_record_register *note)
{
	CUresult rc = note(p, size, flags);

	return rc == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && is_allocated(p)
		       ? CUDA_ERROR_INVALID_VALUE : rc;
}

CUresult gck_record_host_unregister(void *p, gck_record_unregister *note)
{
	return is_allocated(p) ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : note(p);
}

void gck_record_host_forget(const struct gck_record *r)
{
	if (r->allocated)
		munmap((void *)(uintptr_t)r->handle, r->made.words[1]);
}

const char *gck_record_host_unable(const struct gck_record *r)
{
	if (r->made.words[2] & CU_MEMHOSTREGISTER_IOMEMORY)
		return "memory of a device, registered";
	return r->context ? NULL : "its context has ended";
}

CUresult gck_record_host_device(const struct gck_record *r, CUdeviceptr *at)
{
	return gck_cuda_driver.cuMemHostGetDevicePointer_v2(at, (void *)(uintptr_t)r->handle, 0);
}
