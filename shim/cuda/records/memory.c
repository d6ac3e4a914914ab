/* SPDX-License-Identifier: Apache-2.0
 * Memory of cuMemCreate with its contents, which are copied where the program has it mapped, or
 * through a mapping that is made for the copy. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>

static const CUmemAllocationProp *prop_of(const struct gck_record *physical)
{
	return physical->made.copies[2];
}

static size_t size_of(const struct gck_record *physical)
{
	return physical->made.words[1];
}

const char *gck_record_memory_unable(const struct gck_record *r)
{
	const CUmemAllocationProp *prop;

	if (r->kind == GCK_RECORD_MAPPING)
		return r->physical && r->of ? NULL : "memory that was mapped in another way";
	prop = prop_of(r);
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->requestedHandleTypes > CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return "memory of another kind";
	return NULL; /* an export is named itself */
}

bool gck_record_memory_usable(const struct gck_record *context, CUdeviceptr at)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned long long flags = 0;
	CUmemorytype type;

	if (!gck_record_at(GCK_RECORD_RESERVATION, at))
		return !gck_cuda_driver.cuPointerGetAttribute(
			&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
	location.id = context ? (int)gck_record_device_of(context) : 0;
	return !gck_cuda_driver.cuMemGetAccess(&flags, &location, at) && (flags || !context);
}

/* ---- where it can be copied ------------------------------------------------------------------ */

struct window {
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle; /* 0: it is the program's mapping */
	CUcontext context;
	CUdevice device;
	bool is_primary;                     /* it is retained for this */
};

/* A context of the device is made current. */
static CUresult enter(struct window *w)
{
	const struct gck_record *r = gck_record_context_on((uint64_t)w->device);
	CUresult rc;

	w->context = r ? (CUcontext)(uintptr_t)r->now : NULL;
	if (!r) {
		rc = gck_cuda_driver.cuDevicePrimaryCtxRetain(&w->context, w->device);
		if (rc)
			return rc;
		w->is_primary = true;
	}
	return gck_cuda_driver.cuCtxPushCurrent_v2(w->context);
}

static void leave(const struct window *w)
{
	CUcontext unused;

	gck_cuda_driver.cuCtxPopCurrent_v2(&unused);
	if (w->is_primary)
		gck_cuda_driver.cuDevicePrimaryCtxRelease_v2(w->device);
}

static bool is_open(const struct gck_record *mapping, const struct gck_record *physical)
{
	unsigned long long access = 0;

	return mapping->kind == GCK_RECORD_MAPPING && mapping->physical == physical &&
	       mapping->made.words[1] == size_of(physical) &&
	       !gck_cuda_driver.cuMemGetAccess(&access, &prop_of(physical)->location,
					       mapping->handle) &&
	       access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Any mapping of it, open: that the whole can be copied by; NULL: none. */
static const struct gck_record *mapping_of(const struct gck_record *physical, bool open)
{
	const struct gck_record *r = gck_records_first();

	while (r && !(open ? is_open(r, physical)
			   : r->kind == GCK_RECORD_MAPPING && r->physical == physical))
		r = r->next;
	return r;
}

static CUresult map(const struct gck_record *physical, struct window *w)
{
	const CUmemAccessDesc access = {prop_of(physical)->location,
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const struct gck_record *mapping = mapping_of(physical, false);
	size_t size = size_of(physical);
	CUresult rc;

	/* The program may have given its handle back. */
	w->handle = physical->now;
	rc = mapping ? gck_cuda_driver.cuMemRetainAllocationHandle(
			       &w->handle, (void *)(uintptr_t)mapping->handle)
		     : CUDA_SUCCESS;
	rc = rc ? rc : gck_cuda_driver.cuMemAddressReserve(&w->at, size, 0, 0, 0);
	rc = rc ? rc : gck_cuda_driver.cuMemMap(w->at, size, 0, w->handle, 0);
	rc = rc ? rc : gck_cuda_driver.cuMemSetAccess(w->at, size, &access, 1);
	if (!rc && mapping)
		rc = gck_cuda_driver.cuMemRelease(w->handle);
	return rc;
}

/* After a failure it need not be closed: nothing can go on. */
static CUresult open_window(const struct gck_record *physical, struct window *w)
{
	const struct gck_record *mapping = mapping_of(physical, true);
	CUresult rc;

	*w = (struct window){.device = prop_of(physical)->location.id};
	rc = enter(w);
	if (rc || !mapping)
		return rc ? rc : map(physical, w);
	w->at = mapping->handle;
	return CUDA_SUCCESS;
}

static CUresult close_window(const struct gck_record *physical, const struct window *w)
{
	CUresult rc = w->handle ? gck_cuda_driver.cuMemUnmap(w->at, size_of(physical))
				: CUDA_SUCCESS;

	if (w->handle && !rc)
		rc = gck_cuda_driver.cuMemAddressFree(w->at, size_of(physical));
	leave(w);
	return rc;
}

/* ---- contents -------------------------------------------------------------------------------- */

CUresult gck_record_memory_save(struct gck_record *physical)
{
	struct window w;
	CUresult rc;

	free(physical->data);
	physical->data = malloc(size_of(physical));
	rc = physical->data ? open_window(physical, &w) : CUDA_ERROR_OUT_OF_MEMORY;
	if (rc)
		return rc;
	rc = gck_cuda_driver.cuMemcpyDtoH_v2(physical->data, w.at, size_of(physical));
	return rc ? rc : close_window(physical, &w);
}

/* As many uses as the program has. */
static CUresult hold(const struct gck_record *physical, CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle;
	CUresult rc = CUDA_SUCCESS;

	for (unsigned i = 1; i < physical->uses && !rc; i++)
		rc = gck_cuda_driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at);
	return rc || physical->uses ? rc : gck_cuda_driver.cuMemRelease(physical->now);
}

CUresult gck_record_memory_fill(struct gck_record *physical)
{
	struct window w;
	CUresult rc = open_window(physical, &w);

	if (rc)
		return rc;
	rc = gck_cuda_driver.cuMemcpyHtoD_v2(w.at, physical->data, size_of(physical));
	rc = rc ? rc : hold(physical, w.at);
	rc = rc ? rc : close_window(physical, &w);
	free(physical->data);
	physical->data = NULL;
	return rc;
}
