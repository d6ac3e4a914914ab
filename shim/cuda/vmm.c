/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management. */
#include "shim/cuda/function.h"

/* It stays mapped after its handle is released: alive for good. */
GCK_CUDA_FUNCTION(cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t size,
				const CUmemAllocationProp *prop, unsigned long long flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemCreate(handle, size, prop, flags);
	if (rc == CUDA_SUCCESS && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		gck_cuda_alive_add(GCK_CUDA_HOST_MEMORY, *handle);
	GCK_CUDA_LEAVE();
	return rc;
}
