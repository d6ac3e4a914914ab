/* SPDX-License-Identifier: Apache-2.0
 * Queries about our memory: the answers that the driver gives for its own. */
#include "shim/cuda/allocation/allocate.h"
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/vmm/vmm.h"

/* On slabs, or managed. */
static bool find(CUdeviceptr address, struct gck_cuda_allocation *a)
{
	return gck_cuda_allocation_find(address, a) || gck_cuda_managed_find(address, a);
}

/* One lock around all three: what is freed in between would be counted twice, or not at all. */
GCK_CUDA_FUNCTION(cuMemGetInfo_v2, (size_t *available, size_t *total))
{
	CUdevice device;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_slabs_lock();
	rc = gck_cuda_real.cuMemGetInfo_v2(available, total);
	if (rc == CUDA_SUCCESS && available &&
	    gck_cuda_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
		*available += gck_cuda_memory_spare(device) + gck_cuda_reclaim_bytes(device);
	gck_cuda_slabs_unlock();
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *size, CUdeviceptr address))
{
	struct gck_cuda_allocation a;
	CUresult rc = CUDA_SUCCESS;

	GCK_CUDA_ENTER(0);
	if (!find(address, &a)) {
		rc = gck_cuda_real.cuMemGetAddressRange_v2(base, size, address);
	} else {
		if (base)
			*base = a.base;
		if (size)
			*size = a.size;
	}
	GCK_CUDA_LEAVE();
	return rc;
}

/* Replace the driver's answer, which describes the slab. */
static void correct(const struct gck_cuda_allocation *a, CUpointer_attribute which, void *data)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = a->context;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = a->pool;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = a->id;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = a->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = a->size;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		break;
	default:
		break;
	}
}

/* The same for memory of cuMemCreate, which the driver may have recalled since. */
static void correct_own(CUdeviceptr address, CUpointer_attribute which, void *data)
{
	struct gck_cuda_handle *h;
	uint64_t number;

	if (which != CU_POINTER_ATTRIBUTE_BUFFER_ID &&
	    which != CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
		return;
	h = gck_cuda_mappings_hold(address, &number);
	if (!h)
		return;
	*(unsigned long long *)data = which == CU_POINTER_ATTRIBUTE_BUFFER_ID ? number
								 : h->prop.requestedHandleTypes;
	gck_cuda_handle_let_go(h);
}

static void correct_all(unsigned int n, const CUpointer_attribute *which, void *const *data,
			CUdeviceptr address)
{
	struct gck_cuda_allocation a;
	bool found = find(address, &a);

	for (unsigned int i = 0; i < n; i++) {
		if (found)
			correct(&a, which[i], data[i]);
		else
			correct_own(address, which[i], data[i]);
	}
}

GCK_CUDA_FUNCTION(cuPointerGetAttribute, (void *data, CUpointer_attribute which,
					  CUdeviceptr address))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuPointerGetAttribute(data, which, address);
	if (rc == CUDA_SUCCESS)
		correct_all(1, &which, &data, address);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuPointerGetAttributes, (unsigned int n, CUpointer_attribute *which, void **data,
					   CUdeviceptr address))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuPointerGetAttributes(n, which, data, address);
	if (rc == CUDA_SUCCESS)
		correct_all(n, which, data, address);
	GCK_CUDA_LEAVE();
	return rc;
}
