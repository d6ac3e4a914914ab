/* SPDX-License-Identifier: Apache-2.0
 * middle ROUNDS: kernels with points (compiled by gckcc) that are left in their middle. First one
 * of some seconds, awaited; then several in three streams, queued, with copies, events and a host
 * function behind them. Its last line is a sum of all that they made; a round takes about a
 * microsecond. */
#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCKS 132
#define THREADS 256

/* Each round needs what the block's other threads made in the last one. */
static __global__ void ring(unsigned long long *out, unsigned rounds)
{
	__shared__ unsigned long long box[THREADS];
	unsigned long long x = blockIdx.x * blockDim.x + threadIdx.x, y = out[x];
	unsigned long long *mine = out + x;

	for (unsigned i = 0; i < rounds; i++) {
#pragma gpuckpt point
		box[threadIdx.x] = x + y;
		__syncthreads();
		y = box[(threadIdx.x + 1 + i) % THREADS];
		for (int k = 0; k < 40; k++)
			x = x * 6364136223846793005ull + y;
		__syncthreads();
	}
	*mine += x;
}

/* Threads end at different times. */
static __global__ void apart(unsigned long long *out, unsigned rounds)
{
	unsigned long long x = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned long long *mine = out + x, last[4] = {x, 1, 2, 3};
	unsigned n = rounds / 2 + x * 2654435761u % (rounds / 2 + 1);

	for (unsigned i = 0; i < n; i++) {
#pragma gpuckpt point
		last[x % 4] += x;
		if (x & 1)
			for (int k = 0; k < 60; k++)
				x = x * 3 + last[k % 4];
		else
			for (int k = 0; k < 90; k++)
				x = (x >> 1) + last[k % 4] * 5;
	}
	*mine += x + last[0] + last[1] + last[2] + last[3];
}

/* A queue of work, by blocks that stay. Each item is done once. */
static __global__ void queue(unsigned *next, unsigned *done, unsigned items)
{
	__shared__ unsigned item;

	for (;;) {
#pragma gpuckpt point
		if (threadIdx.x == 0)
			item = atomicAdd(next, 1);
		__syncthreads();
		unsigned mine = item;
		__syncthreads();
		if (mine >= items)
			return;
		unsigned long long x = mine;
		for (int k = 0; k < 200; k++)
			x = x * 6364136223846793005ull + threadIdx.x;
		if (threadIdx.x == 0)
			atomicAdd(&done[mine % 65536], 1 + (unsigned)(x >> 60));
	}
}

static unsigned called;

static void CUDART_CB call(void *arg)
{
	called = called * 3 + (unsigned)(size_t)arg;
}

static unsigned long long sum(const void *device, size_t n)
{
	std::vector<unsigned long long> v(n / 8);
	unsigned long long s = 0;

	MUST(cudaMemcpy(v.data(), device, n, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < v.size(); i++)
		s = s * 31 + v[i];
	return s;
}

int main(int argc, char **argv)
{
	const size_t words = BLOCKS * THREADS, items = 65536 * 16;
	unsigned rounds = argc == 2 ? atoi(argv[1]) : 0;
	unsigned long long *a, *b, *c, s;
	unsigned *next, *done;
	cudaStream_t streams[3];
	cudaEvent_t event;

	if (!rounds)
		return 2;
	MUST(cudaMalloc(&a, words * 8));
	MUST(cudaMalloc(&b, words * 8));
	MUST(cudaMalloc(&c, words * 8));
	MUST(cudaMalloc(&done, 65536 * 4));
	MUST(cudaMalloc(&next, 4));
	MUST(cudaMemset(a, 1, words * 8));
	MUST(cudaMemset(b, 0, words * 8));
	MUST(cudaMemset(done, 0, 65536 * 4));
	MUST(cudaStreamCreate(&streams[0]));
	MUST(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking));
	MUST(cudaEventCreate(&event));
	gpu_say_started();
	double begin = gpu_ms();
	ring<<<BLOCKS, THREADS>>>(a, 3 * rounds);
	MUST(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	s = sum(a, words * 8);
	fprintf(stderr, "one kernel: %.0f ms\n", gpu_ms() - begin);
	for (int i = 0; i < 3; i++) {
		ring<<<BLOCKS / 4, THREADS, 0, streams[0]>>>(a, rounds / 2);
		ring<<<BLOCKS / 4, THREADS, 0, streams[0]>>>(a, rounds / 3);
		apart<<<BLOCKS / 4, THREADS, 0, streams[1]>>>(b, rounds / 2);
		MUST(cudaMemsetAsync(next, 0, 4, streams[2]));
		queue<<<BLOCKS / 4, THREADS, 0, streams[2]>>>(next, done, items);
		MUST(cudaGetLastError());
		MUST(cudaMemcpyAsync(c, b, words * 8, cudaMemcpyDeviceToDevice, streams[1]));
		MUST(cudaEventRecord(event, streams[0]));
		MUST(cudaStreamWaitEvent(streams[1], event, 0));
		apart<<<BLOCKS / 4, THREADS, 0, streams[1]>>>(a, rounds / 4);
		MUST(cudaLaunchHostFunc(streams[2], call, (void *)(size_t)(i + 1)));
		while (cudaStreamQuery(streams[1]) == cudaErrorNotReady)
			usleep(1000);
		s = s * 31 + sum(c, words * 8);
	}
	MUST(cudaDeviceSynchronize());
	fprintf(stderr, "all: %.0f ms\n", gpu_ms() - begin);
	printf("%llx %llx %llx %llx %u\n", s, sum(a, words * 8), sum(b, words * 8),
	       sum(done, 65536 * 4), called);
	return 0;
}
