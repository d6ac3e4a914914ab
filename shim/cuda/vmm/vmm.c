/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management. We carry memory of devices that only this process
 * may have. The driver carries all else, under its own handles: host memory, imported memory,
 * multicast objects, compressed memory, memory for sparse arrays, and memory to be exported
 * other than as a descriptor. Addresses are the program's choice in both cases. */
#include "shim/cuda/vmm/vmm.h"

#include <string.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/memory/device_memory.h"

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/* ---- handles -------------------------------------------------------------------------------- */

static bool is_carried(const CUmemAllocationProp *prop, unsigned long long flags)
{
	return prop && !flags && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id >= 0 &&
	       prop->location.id < GCK_CUDA_DEVICES_MAX &&
	       !(prop->requestedHandleTypes & ~DESCRIPTOR) && !prop->allocFlags.compressionType &&
	       !prop->allocFlags.usage;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop)
{
	struct gck_cuda_handle *h = gck_cuda_handle_new(size, prop);
	CUresult rc;

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	GCK_CUDA_TRY(rc, gck_cuda_physical_make(&h->memory, size, prop));
	if (rc) {
		gck_cuda_handle_let_go(h);
		return rc;
	}
	/* without a descriptor the driver carries it */
	gck_cuda_physical_keep(&h->memory, prop->location.id);
	gck_cuda_handle_count(h, (int64_t)size);
	*handle = h->id;
	return CUDA_SUCCESS;
}

/* Host memory stays mapped after its handle is released, so it counts for good. */
GCK_CUDA_FUNCTION(cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t size,
				const CUmemAllocationProp *prop, unsigned long long flags))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;

	GCK_CUDA_ENTER(0);
	if (handle && is_carried(prop, flags))
		rc = create(handle, size, prop);
	if (rc == CUDA_ERROR_NOT_SUPPORTED) {
		GCK_CUDA_TRY(rc, gck_cuda_real.cuMemCreate(handle, size, prop, flags));
		if (rc == CUDA_SUCCESS && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			gck_cuda_obstacle_add(GCK_CUDA_HOST_MEMORY, *handle);
	}
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemRelease, (CUmemGenericAllocationHandle handle))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	if (!gck_cuda_handle_is_ours(handle))
		rc = gck_cuda_real.cuMemRelease(handle);
	else
		rc = gck_cuda_handle_release(handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemRetainAllocationHandle,
		  (CUmemGenericAllocationHandle * handle, void *address))
{
	struct gck_cuda_handle *h;
	CUresult rc = CUDA_SUCCESS;

	GCK_CUDA_ENTER(0);
	h = handle ? gck_cuda_mappings_hold((uint64_t)(uintptr_t)address, NULL) : NULL;
	if (h) {
		gck_cuda_handle_name(h);
		*handle = h->id;
		gck_cuda_handle_let_go(h);
	} else if (gck_cuda_memory_is_ours((uint64_t)(uintptr_t)address)) {
		rc = CUDA_ERROR_INVALID_VALUE; /* as the driver does for memory of cuMemAlloc */
	} else {
		rc = gck_cuda_real.cuMemRetainAllocationHandle(handle, address);
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* The body of a function on a handle. For a handle of ours call_ours runs, with h held; else
 * call. */
#define ON_HANDLE(rc, handle, call, call_ours) \
	do { \
		struct gck_cuda_handle *h; \
		if (!gck_cuda_handle_is_ours(handle)) { \
			(rc) = (call); \
			break; \
		} \
		h = gck_cuda_handle_hold(handle); \
		(rc) = h ? (call_ours) : CUDA_ERROR_INVALID_VALUE; \
		if (h) \
			gck_cuda_handle_let_go(h); \
	} while (0)

static CUresult properties(const struct gck_cuda_handle *h, CUmemAllocationProp *prop)
{
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = h->prop;
	return CUDA_SUCCESS;
}

GCK_CUDA_FUNCTION(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *prop,
							   CUmemGenericAllocationHandle handle))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	ON_HANDLE(rc, handle, gck_cuda_real.cuMemGetAllocationPropertiesFromHandle(prop, handle),
		  properties(h, prop));
	GCK_CUDA_LEAVE();
	return rc;
}

/* The driver exports no descriptor of memory that it forgot once: take the vault's. */
static CUresult descriptor(const struct gck_cuda_handle *h, int *fd)
{
	int copy = gck_cuda_vault_get(h->memory.vault_name);

	if (copy < 0)
		return gck_cuda_real.cuMemExportToShareableHandle(fd, h->memory.handle, DESCRIPTOR,
								  0);
	*fd = copy;
	return CUDA_SUCCESS;
}

static CUresult export(const struct gck_cuda_handle *h, void *shareable,
		       CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	if (shareable && !flags && type == DESCRIPTOR && h->prop.requestedHandleTypes & DESCRIPTOR)
		rc = descriptor(h, shareable);
	if (rc == CUDA_SUCCESS)
		gck_cuda_obstacle_add_once(GCK_CUDA_EXPORT, h->id);
	return rc;
}

GCK_CUDA_FUNCTION(cuMemExportToShareableHandle,
		  (void *shareable, CUmemGenericAllocationHandle handle,
		   CUmemAllocationHandleType type, unsigned long long flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	ON_HANDLE(rc, handle,
		  gck_cuda_real.cuMemExportToShareableHandle(shareable, handle, type, flags),
		  export(h, shareable, type, flags));
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- mappings ------------------------------------------------------------------------------- */

/* The mapping holds the memory as well. */
static CUresult map(struct gck_cuda_handle *h, CUdeviceptr address, size_t size, size_t offset,
		    unsigned long long flags)
{
	struct gck_cuda_mapping *m = gck_cuda_mapping_new(address, size, offset, h);
	CUresult rc;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gck_cuda_handle_hold_too(h);
	rc = gck_cuda_real.cuMemMap(address, size, offset, h->memory.handle, flags);
	if (rc)
		gck_cuda_mappings_end(m);
	else
		gck_cuda_mappings_put_on(m);
	return rc;
}

GCK_CUDA_FUNCTION(cuMemMap, (CUdeviceptr address, size_t size, size_t offset,
			     CUmemGenericAllocationHandle handle, unsigned long long flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	ON_HANDLE(rc, handle, gck_cuda_real.cuMemMap(address, size, offset, handle, flags),
		  map(h, address, size, offset, flags));
	GCK_CUDA_LEAVE();
	return rc;
}

/* Another thread may map something there as soon as the driver has unmapped it. */
GCK_CUDA_FUNCTION(cuMemUnmap, (CUdeviceptr address, size_t size))
{
	struct gck_cuda_mapping *taken;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	taken = gck_cuda_mappings_take_off(address, size);
	rc = gck_cuda_real.cuMemUnmap(address, size);
	if (rc)
		gck_cuda_mappings_put_on(taken);
	else
		gck_cuda_mappings_end(taken);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemSetAccess, (CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
				   size_t n))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemSetAccess(address, size, access, n);
	if (rc == CUDA_SUCCESS)
		gck_cuda_mappings_allow(address, size, access, n);
	GCK_CUDA_LEAVE();
	return rc;
}

/* The multicast object itself prevents a checkpoint (obstacles.h). */
GCK_CUDA_FUNCTION(cuMulticastBindMem, (CUmemGenericAllocationHandle object, size_t object_offset,
				       CUmemGenericAllocationHandle handle, size_t offset,
				       size_t size, unsigned long long flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	ON_HANDLE(rc, handle,
		  gck_cuda_real.cuMulticastBindMem(object, object_offset, handle, offset, size,
						   flags),
		  gck_cuda_real.cuMulticastBindMem(object, object_offset, h->memory.handle, offset,
						   size, flags));
	GCK_CUDA_LEAVE();
	return rc;
}

/* Memory for sparse arrays (CU_MEM_CREATE_USAGE_TILE_POOL) is the driver's, so a handle of ours
 * is an error. */
static bool has_ours(const CUarrayMapInfo *v, unsigned int n)
{
	for (unsigned int i = 0; v && i < n; i++) {
		if (gck_cuda_handle_is_ours(v[i].memHandle.memHandle))
			return true;
	}
	return false;
}

#define MAPS_ARRAYS(name) \
	GCK_CUDA_FUNCTION(name, (CUarrayMapInfo *v, unsigned int n, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = has_ours(v, n) ? CUDA_ERROR_INVALID_VALUE : gck_cuda_real.name(v, n, stream); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}

MAPS_ARRAYS(cuMemMapArrayAsync)
MAPS_ARRAYS(cuMemMapArrayAsync_ptsz)
