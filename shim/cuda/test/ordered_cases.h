/* SPDX-License-Identifier: Apache-2.0
 * What the programs with cases of stream-ordered memory have in common. Each of two devices has 96
 * MiB. */
#ifndef GCK_CUDA_TEST_ORDERED_CASES_H
#define GCK_CUDA_TEST_ORDERED_CASES_H

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/test/kernels.h"
#include "test/support/tap.h"

#define MIB ((size_t)1 << 20)
#define LARGE (40 * MIB) /* two of them do not fit into what there is once more */

static CUstream one, two;
static CUmemoryPool pool; /* the device's */
static bool ours;
static CUcontext context;
static CUmodule module;
static uint64_t *flag; /* wait_flag_in's kernel waits for it */

static inline void wait_flag_in(CUstream where)
{
	uint64_t at = (uintptr_t)flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	*(volatile uint64_t *)flag = 0;
	is_int(cuModuleGetFunction(&f, module, "wait_flag") |
		       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, where, params, NULL),
	       0, "a kernel waits for the host");
}

static inline void go(void)
{
	*(volatile uint64_t *)flag = 1;
	is_int(cuCtxSynchronize(), 0, "the kernel ends");
}

static inline CUdeviceptr take(size_t bytes, CUstream stream)
{
	CUdeviceptr at = 0;

	is_int(cuMemAllocAsync(&at, bytes, stream), 0, "memory is allocated in a stream's order");
	return at;
}

static inline void give(CUdeviceptr at, CUstream stream)
{
	is_int(cuMemFreeAsync(at, stream), 0, "memory is freed in a stream's order");
}

static inline unsigned char first_byte(CUdeviceptr at)
{
	unsigned char byte = 0;

	cuCtxSynchronize();
	cuMemcpyDtoH_v2(&byte, at, 1);
	return byte;
}

/* argv[1] "ours": under the stand-in. */
static inline void begin(int argc, char **argv)
{
	ours = argc > 1 && !strcmp(argv[1], "ours");
	is_int(cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context) |
		       cuMemAllocHost_v2((void **)&flag, 8) | cuModuleLoadData(&module, "") |
		       cuStreamCreate(&one, CU_STREAM_NON_BLOCKING) |
		       cuStreamCreate(&two, CU_STREAM_NON_BLOCKING) |
		       cuDeviceGetDefaultMemPool(&pool, 0),
	       0, "there are a context and two streams");
}

#endif
