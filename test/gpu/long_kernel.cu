/* SPDX-License-Identifier: Apache-2.0
 * long_kernel SECONDS: one kernel that runs for about so long. Compiled by gckcc it has a point in
 * its loop. Threads exchange numbers by shared memory; what each ends with is computed on the CPU
 * as well, in a moment. Says "begun" on standard error, and then "right", or what is wrong. */
#include <stdint.h>
#include <vector>

#include "must_run.h"

#define BLOCKS 132
#define THREADS 256
#define FACTOR 6364136223846793005ull

/* A round: x is FACTOR times itself, and the other's. */
__global__ void rounds(uint64_t *out, uint64_t n)
{
	__shared__ uint64_t box[THREADS];
	uint64_t x = out[blockIdx.x * THREADS + threadIdx.x];

	for (uint64_t i = 0; i < n; i++) {
#pragma CPT
		box[threadIdx.x] = x;
		__syncthreads();
		uint64_t y = box[THREADS - 1 - threadIdx.x];
		__syncthreads();
		x = x * FACTOR + y;
	}
	out[blockIdx.x * THREADS + threadIdx.x] = x;
}

static uint64_t begin_of(unsigned i)
{
	return i * 0x9e3779b97f4a7c15ull + 1;
}

/* n rounds are x * own + other * y: the power of a matrix. */
struct power {
	uint64_t own, other;
};

static struct power times(struct power a, struct power b)
{
	return {a.own * b.own + a.other * b.other, a.own * b.other + a.other * b.own};
}

static struct power power_of(uint64_t n)
{
	struct power all = {1, 0}, square = {FACTOR, 1};

	for (; n; n /= 2, square = times(square, square))
		if (n & 1)
			all = times(all, square);
	return all;
}

static float run(uint64_t *memory, uint64_t n)
{
	cudaEvent_t begin, end;
	float ms;

	MUST_RUN(cudaEventCreate(&begin));
	MUST_RUN(cudaEventCreate(&end));
	MUST_RUN(cudaEventRecord(begin));
	rounds<<<BLOCKS, THREADS>>>(memory, n);
	MUST_RUN(cudaEventRecord(end));
	MUST_RUN(cudaDeviceSynchronize());
	MUST_RUN(cudaEventElapsedTime(&ms, begin, end));
	return ms;
}

int main(int argc, char **argv)
{
	std::vector<uint64_t> x(BLOCKS * THREADS);
	double seconds = argc == 2 ? atof(argv[1]) : 0;
	unsigned wrong = 0;
	uint64_t *memory, n = 1 << 20;

	if (seconds <= 0)
		return 2;
	for (unsigned i = 0; i < x.size(); i++)
		x[i] = begin_of(i);
	MUST_RUN(cudaMalloc(&memory, 8 * x.size()));
	run(memory, 1);
	n = (uint64_t)(seconds * 1000 / run(memory, n) * n);
	MUST_RUN(cudaMemcpy(memory, x.data(), 8 * x.size(), cudaMemcpyHostToDevice));
	fprintf(stderr, "begun: %llu rounds\n", (unsigned long long)n);
	rounds<<<BLOCKS, THREADS>>>(memory, n);
	MUST_RUN(cudaDeviceSynchronize());
	MUST_RUN(cudaMemcpy(x.data(), memory, 8 * x.size(), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < x.size(); i++) {
		unsigned other = i / THREADS * THREADS + THREADS - 1 - i % THREADS;
		struct power p = power_of(n);

		wrong += x[i] != p.own * begin_of(i) + p.other * begin_of(other);
	}
	if (wrong)
		printf("%u threads are wrong\n", wrong);
	else
		printf("right\n");
	return wrong > 0;
}
