/* SPDX-License-Identifier: Apache-2.0
 * Stream-ordered memory, with the driver alone and under the stand-in, which must give the same
 * answers: attributes, refusals, figures, and when another stream gets freed memory. */
#include "driver.h"

#include <stdint.h>

#define WORDS (64 * MIB / sizeof(uint32_t))
#define ROUNDS 200
#define STREAMS 4

static cudaStream_t one, two;

static void start(void)
{
	MUST(cudaSetDevice(0));
	MUST(cudaFree(NULL));
	MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
}

static CUdeviceptr take(size_t bytes, CUstream stream)
{
	CUdeviceptr at = 0;

	MUST(cuMemAllocAsync(&at, bytes, stream));
	return at;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void attributes(void)
{
	CUmemoryPool pool, of = NULL;
	CUcontext context = (CUcontext)1;
	CUdeviceptr at, base;
	size_t size;

	start();
	at = take(1000, one);
	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	MUST(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	MUST(cuMemGetAddressRange(&base, &size, at + 500));
	CHECK(!context && of == pool);
	CHECK(base == at && size == 1000);
	MUST(cuMemFreeAsync(at, one));
}

static void refusals(void)
{
	CUdeviceptr at, inner = 0;
	CUgraph graph;

	start();
	at = take(MIB, one);
	CHECK(cuMemFreeAsync(at + 512, one) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocAsync(&inner, (size_t)1 << 50, one) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuStreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemFreeAsync(at, two) == CUDA_ERROR_INVALID_VALUE);
	cuStreamEndCapture(two, &graph);
	MUST(cuMemFreeAsync(at, one));
	MUST(cuStreamSynchronize(one));
	CHECK(cuMemFreeAsync(at, one) == CUDA_ERROR_INVALID_VALUE);
}

static void figures(void)
{
	cuuint64_t used = 0, reserved = 0, all = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr at;

	start();
	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	at = take(64 * MIB, one);
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == 64 * MIB);
	MUST(cuMemFreeAsync(at, one));
	MUST(cuStreamSynchronize(one));
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	CHECK(used == 0 && reserved >= 64 * MIB);
	MUST(cuMemPoolTrimTo(pool, 0));
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	CHECK(reserved < 64 * MIB);
}

/* Stream-ordered memory belongs to no context. */
static void context_ends(void)
{
	CUcontext second;
	CUdeviceptr at;
	CUstream stream;
	uint32_t v = 0;

	start();
	MUST(cuCtxCreate(&second, NULL, 0, 0));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	at = take(MIB, stream);
	MUST(cuMemsetD32Async(at, 7, 1, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuCtxDestroy(second));
	MUST(cudaSetDevice(0));
	MUST(cuMemcpyDtoH(&v, at, 4));
	CHECK(v == 7);
	MUST(cuMemFreeAsync(at, one));
}

/* ---- order ---------------------------------------------------------------------------------- */

__global__ static void fill(uint32_t *p, size_t n, uint32_t tag)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] = tag;
}

__global__ static void check(const uint32_t *p, size_t n, uint32_t tag, unsigned *bad)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		if (p[i] != tag)
			atomicAdd(bad, 1);
}

/* The host is far ahead of all streams. Memory that one stream frees is allocated by others. */
static void streams(void)
{
	cudaStream_t s[STREAMS];
	unsigned *bad, wrong = 1;

	start();
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMemset(bad, 0, sizeof *bad));
	MUST(cudaDeviceSynchronize());
	for (int i = 0; i < STREAMS; i++)
		MUST(cudaStreamCreateWithFlags(&s[i],
					       i ? cudaStreamNonBlocking : cudaStreamDefault));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		cudaStream_t stream = s[i % STREAMS];
		size_t n = WORDS >> i % 7;
		uint32_t *p;

		MUST(cudaMallocAsync((void **)&p, n * sizeof *p, stream));
		fill<<<64, 256, 0, stream>>>(p, n, i);
		for (int k = 0; k < 4; k++)
			check<<<8, 256, 0, stream>>>(p, n, i, bad);
		MUST(cudaFreeAsync(p, stream));
	}
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	CHECK(wrong == 0);
}

static const struct gpu_case cases[] = {
	{"attributes", attributes},     {"refusals", refusals}, {"figures", figures},
	{"context_ends", context_ends}, {"streams", streams},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
