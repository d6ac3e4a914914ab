/* SPDX-License-Identifier: Apache-2.0
 * The cost of calls: run with and without the stand-in for libcuda.so.1. Each figure is the least
 * of several turns, so that other load on the machine does not matter. */
#include "driver.h"

#define TURNS 7
#define LAUNCHES 20000
#define QUERIES 200000
#define ALLOCATIONS 500
#define ORDERED 20000

__global__ static void nothing(void)
{
}

static void launches(void)
{
	for (int i = 0; i < LAUNCHES; i++) {
		nothing<<<1, 1>>>();
		if (i % 500 == 0)
			MUST(cudaDeviceSynchronize());
	}
	MUST(cudaDeviceSynchronize());
}

static void queries(void)
{
	for (int i = 0; i < QUERIES; i++)
		MUST(cudaStreamQuery(0));
}

static void allocations(void)
{
	void *p[8];

	for (int i = 0; i < ALLOCATIONS / 8; i++) {
		for (int k = 0; k < 8; k++)
			MUST(cudaMalloc(&p[k], MIB << k));
		for (int k = 0; k < 8; k++)
			MUST(cudaFree(p[k]));
	}
}

/* Stream-ordered, as fast as the host can: the pool keeps the memory of all sizes. */
static void ordered(size_t least)
{
	static cudaStream_t stream;
	void *p[8];

	if (!stream)
		MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < ORDERED / 8; i++) {
		for (int k = 0; k < 8; k++)
			MUST(cudaMallocAsync(&p[k], least << k, stream));
		for (int k = 0; k < 8; k++)
			MUST(cudaFreeAsync(p[k], stream));
	}
}

static void ordered_small(void)
{
	ordered(512);
}

static void ordered_large(void)
{
	ordered(MIB);
}

static void keep_all(void)
{
	cuuint64_t all = UINT64_MAX;
	cudaMemPool_t pool;

	MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
	MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

static void measure(const char *name, void (*work)(void), int calls)
{
	double least = 1e30;

	work();
	for (int i = 0; i < TURNS; i++) {
		double start = gpu_ms(), ms;

		work();
		ms = gpu_ms() - start;
		least = ms < least ? ms : least;
	}
	gpu_figure(name, least * 1e6 / calls, "ns");
}

int main(void)
{
	gpu_init();
	measure("call_launch", launches, LAUNCHES);
	measure("call_query", queries, QUERIES);
	measure("call_malloc_free", allocations, ALLOCATIONS / 8 * 8);
	keep_all();
	measure("call_malloc_free_async_small", ordered_small, ORDERED / 8 * 8);
	measure("call_malloc_free_async", ordered_large, ORDERED / 8 * 8);
	MUST(cudaDeviceSynchronize());
	return 0;
}
