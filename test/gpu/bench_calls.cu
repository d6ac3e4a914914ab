/* SPDX-License-Identifier: Apache-2.0
 * What calls cost: run with and without the stand-in for libcuda.so.1. Each figure is the least of
 * several turns, so that what else runs does not matter. */
#include "driver.h"

#define TURNS 7
#define LAUNCHES 20000
#define QUERIES 200000
#define ALLOCATIONS 500

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
	return 0;
}
