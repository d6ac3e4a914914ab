/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: objects that a program imports from other interfaces and processes. They are
 * empty. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>

static CUresult import(void **handle)
{
	*handle = malloc(1);
	return *handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_cuImportExternalSemaphore(CUexternalSemaphore *semaphore,
					const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *of)
{
	(void)of;
	return import((void **)semaphore);
}

CUresult fake_cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
	free(semaphore);
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
						 CUmemAllocationHandleType type,
						 unsigned long long flags)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	(void)handle;
	(void)type;
	return flags ? CUDA_ERROR_INVALID_VALUE : fake_cuMemPoolCreate(pool, &props);
}

CUresult fake_cuMulticastCreate(CUmemGenericAllocationHandle *object,
				const CUmulticastObjectProp *prop)
{
	void *handle;
	CUresult rc = prop->numDevices ? import(&handle) : CUDA_ERROR_INVALID_VALUE;

	if (!rc)
		*object = (CUmemGenericAllocationHandle)(uintptr_t)handle;
	return rc;
}
