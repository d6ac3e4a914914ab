/* SPDX-License-Identifier: Apache-2.0
 * A driver whose functions do nothing: those that the stand-in needs to allocate memory. */
#include <cuda.h>
#include <fcntl.h>

#define CONTEXT ((CUcontext)16)
#define POOL ((CUmemoryPool)32)
#define ANSWERS(name, parameters, answer) CUresult name parameters { answer; return CUDA_SUCCESS; }

CUresult cuStreamQuery(CUstream stream)
{
	return stream ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra)
{
	return f && gx + gy + gz + bx + by + bz + shared && stream && params && !extra ? 0 : 1;
}

ANSWERS(cuDeviceGetCount, (int *n), *n = 1)
ANSWERS(cuDeviceGetAttribute, (int *value, CUdevice_attribute which, CUdevice device), *value = 0)
ANSWERS(cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice device), *pool = POOL)
ANSWERS(cuDeviceGetMemPool, (CUmemoryPool *pool, CUdevice device), *pool = POOL)
ANSWERS(cuCtxGetCurrent, (CUcontext *context), *context = CONTEXT)
ANSWERS(cuCtxPushCurrent, (CUcontext context), (void)context)
ANSWERS(cuCtxPopCurrent, (CUcontext *context), *context = CONTEXT)
ANSWERS(cuCtxGetDevice, (CUdevice *device), *device = 0)
ANSWERS(cuCtxRecordEvent, (CUcontext context, CUevent event), (void)event)
ANSWERS(cuStreamGetCtx, (CUstream stream, CUcontext *context), *context = CONTEXT)
ANSWERS(cuStreamGetFlags, (CUstream stream, unsigned int *flags), *flags = CU_STREAM_NON_BLOCKING)
ANSWERS(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), (void)mode)
ANSWERS(cuMemGetInfo, (size_t *available, size_t *total), *available = *total = (size_t)1 << 36)
ANSWERS(cuMemAddressReserve,
	(CUdeviceptr * at, size_t size, size_t alignment, CUdeviceptr want,
	 unsigned long long flags),
	*at = want)
ANSWERS(cuMemCreate,
	(CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
	 unsigned long long flags),
	*handle = size)
ANSWERS(cuMemExportToShareableHandle,
	(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	 unsigned long long flags),
	*(int *)fd = open("/dev/null", O_RDONLY))
ANSWERS(cuMemMap, (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		   unsigned long long flags), (void)handle)
ANSWERS(cuMemSetAccess, (CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t n),
	(void)n)
ANSWERS(cuMemAllocAsync, (CUdeviceptr *at, size_t size, CUstream stream), *at = size)
ANSWERS(cuMemFreeAsync, (CUdeviceptr at, CUstream stream), (void)at)
