/* SPDX-License-Identifier: Apache-2.0
 * middle ROUNDS: kernels with points (compiled by gckcc) that are left in their middle. First one
 * of some seconds, awaited; one whose blocks wait for each other; then several in three streams,
 * queued, with copies, events and a host function behind them. Its last line is a sum of all that
 * they made; a round takes about a microsecond. */
#include "driver.h"
#include "work_queue.h"

#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCKS 132
#define THREADS 256
#define ITEMS (1 << 15)
#define QUEUES 16

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

/* In each round all blocks of the grid wait for each other, and use what all have added. */
static __global__ void meet(unsigned long long *out, unsigned long long *sums, unsigned rounds)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	unsigned long long x = grid.thread_rank(), *mine = out + x;

	for (unsigned i = 0; i < rounds; i++) {
#pragma gpuckpt point
		unsigned long long sum = x;
		for (int k = 16; k; k /= 2)
			sum += __shfl_xor_sync(~0u, sum, k);
		if (threadIdx.x % 32 == 0)
			atomicAdd(&sums[i % 2], sum);
		grid.sync();
		x = x * 6364136223846793005ull + sums[i % 2];
	}
	*mine += x;
}

static void launch_meet(unsigned blocks, cudaStream_t stream, unsigned long long *out,
			unsigned long long *sums, unsigned rounds)
{
	void *arguments[] = {&out, &sums, &rounds};

	MUST(cudaLaunchCooperativeKernel((void *)meet, blocks, THREADS, arguments, 0, stream));
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
	const size_t words = BLOCKS * THREADS, data_size = ITEMS * 256 * sizeof(float);
	unsigned rounds = argc == 2 ? atoi(argv[1]) : 0;
	unsigned long long *a, *b, *c, *sums, s;
	unsigned *next;
	float *data;
	cudaStream_t streams[3];
	cudaEvent_t event;

	if (!rounds)
		return 2;
	MUST(cudaMalloc(&a, words * 8));
	MUST(cudaMalloc(&b, words * 8));
	MUST(cudaMalloc(&c, words * 8));
	MUST(cudaMalloc(&sums, 4 * 8));
	MUST(cudaMalloc(&data, data_size));
	MUST(cudaMalloc(&next, QUEUES * 4));
	MUST(cudaMemset(a, 1, words * 8));
	MUST(cudaMemset(b, 0, words * 8));
	MUST(cudaMemset(sums, 0, 4 * 8));
	MUST(cudaMemset(data, 0, data_size));
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
	launch_meet(BLOCKS, 0, a, sums, rounds / 4);
	MUST(cudaDeviceSynchronize());
	fprintf(stderr, "and a cooperative one: %.0f ms\n", gpu_ms() - begin);
	for (int i = 0; i < 3; i++) {
		ring<<<BLOCKS / 4, THREADS, 0, streams[0]>>>(a, rounds / 2);
		ring<<<BLOCKS / 4, THREADS, 0, streams[0]>>>(a, rounds / 3);
		apart<<<BLOCKS / 4, THREADS, 0, streams[1]>>>(b, rounds / 2);
		launch_meet(BLOCKS / 4, streams[0], a, sums + 2, rounds / 16);
		MUST(cudaMemsetAsync(next, 0, QUEUES * 4, streams[2]));
		for (int k = 0; k < QUEUES; k++)
			queue<<<BLOCKS / 4, THREADS, 0, streams[2]>>>(next + k, data, ITEMS);
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
	       sum(data, data_size), called);
	return 0;
}
