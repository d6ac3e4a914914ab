/* SPDX-License-Identifier: Apache-2.0
 * The time and the registers of kernels with a point in their outer loop: compiled by nvcc, which
 * ignores the pragma, and by gckcc. Then also the bytes of a thread's record, and the time from the
 * word to an idle GPU. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <time.h>
#include <unistd.h>

#define MUST(call) \
	do { \
		cudaError_t e_ = (call); \
		if (e_ != cudaSuccess) { \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)); \
			exit(2); \
		} \
	} while (0)
#define TILE 16

__global__ void matrix(const float *a, const float *b, float *c, int n)
{
	__shared__ float x[TILE][TILE], y[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int t = 0; t < n; t += TILE) {
#pragma gpuckpt point
		x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
		y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += x[threadIdx.y][k] * y[k][threadIdx.x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}

__global__ void bodies(const float4 *p, float4 *a, int n)
{
	__shared__ float4 s[256];
	float4 me = p[blockIdx.x * blockDim.x + threadIdx.x], f = make_float4(0, 0, 0, 0);

	for (int t = 0; t < n; t += blockDim.x) {
#pragma gpuckpt point
		s[threadIdx.x] = p[t + threadIdx.x];
		__syncthreads();
		for (unsigned k = 0; k < blockDim.x; k++) {
			float x = s[k].x - me.x, y = s[k].y - me.y, z = s[k].z - me.z;
			float r = rsqrtf(x * x + y * y + z * z + 0.01f), w = s[k].w * r * r * r;

			f.x += x * w;
			f.y += y * w;
			f.z += z * w;
		}
		__syncthreads();
	}
	a[blockIdx.x * blockDim.x + threadIdx.x] = f;
}

__global__ void monte(unsigned long long *hits, int rounds)
{
	unsigned r = blockIdx.x * blockDim.x + threadIdx.x + 1, n = 0;

	for (int i = 0; i < rounds; i++) {
#pragma gpuckpt point
		for (int k = 0; k < 64; k++) {
			float x, y;

			r = r * 1664525 + 1013904223;
			x = (r >> 8) * (1.0f / (1 << 24));
			r = r * 1664525 + 1013904223;
			y = (r >> 8) * (1.0f / (1 << 24));
			n += x * x + y * y < 1;
		}
	}
	atomicAdd(hits, n);
}

__global__ void queue(unsigned *next, float *data, int items)
{
	__shared__ unsigned item;

	for (;;) {
#pragma gpuckpt point
		if (threadIdx.x == 0)
			item = atomicAdd(next, 1);
		__syncthreads();
		unsigned mine = item;
		__syncthreads();
		if (mine >= (unsigned)items)
			return;
		float v = data[mine * 256 + threadIdx.x];
		for (int k = 0; k < 500; k++)
			v = v * 1.0001f + 0.5f;
		data[mine * 256 + threadIdx.x] = v;
	}
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* The kernel is asked to leave in its middle. */
template<class Run> static void leave(const char *name, const void *kernel, size_t blocks,
				      size_t threads, Run run)
{
	cudaKernel_t k;
	CUlibrary library;
	CUdeviceptr variable, word;
	cudaStream_t beside;
	const char *symbol;
	unsigned long long words[6];
	size_t bytes;
	char *records;
	double worst = 0;

	MUST(cudaGetKernel(&k, kernel));
	if (cuKernelGetName(&symbol, (CUkernel)k) || cuKernelGetLibrary(&library, (CUkernel)k) ||
	    cuLibraryGetGlobal(&variable, &bytes, library,
			       (std::string(symbol) + "$ckpt").c_str()))
		return;
	MUST(cudaMemcpy(words, (void *)variable, sizeof words, cudaMemcpyDefault));
	bytes = blocks * (16 + words[4] + (words[3] * threads + 15) / 16 * 16);
	MUST(cudaMalloc(&records, bytes + 256));
	word = (CUdeviceptr)(records + bytes);
	word = (word + 15) / 16 * 16;
	MUST(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
	words[0] = word;
	words[1] = (unsigned long long)records;
	MUST(cudaMemcpy((void *)variable, words, 16, cudaMemcpyDefault));
	for (int i = 0; i < 5; i++) {
		double begin, ms;

		MUST(cudaMemset(records, 0, bytes + 256));
		MUST(cudaDeviceSynchronize());
		run();
		begin = now_ms();
		while (now_ms() < begin + 0.05 * (i + 1))
			;
		begin = now_ms();
		if (cuStreamWriteValue32((CUstream)beside, word, 1, 0))
			exit(2);
		MUST(cudaDeviceSynchronize());
		ms = now_ms() - begin;
		worst = ms > worst ? ms : worst;
	}
	words[0] = 0;
	MUST(cudaMemcpy((void *)variable, words, 8, cudaMemcpyDefault));
	MUST(cudaFree(records));
	printf("%s_leave %.3f ms\n%s_record %llu bytes\n", name, worst, name, words[3]);
}

template<class Run> static void figure(const char *name, const void *kernel, size_t blocks,
				       size_t threads, Run run)
{
	cudaEvent_t begin, end;
	cudaFuncAttributes attributes;
	float least = 1e9, ms;

	MUST(cudaFuncGetAttributes(&attributes, kernel));
	MUST(cudaEventCreate(&begin));
	MUST(cudaEventCreate(&end));
	for (int i = 0; i < 6; i++) {
		MUST(cudaEventRecord(begin));
		run();
		MUST(cudaGetLastError());
		MUST(cudaEventRecord(end));
		MUST(cudaEventSynchronize(end));
		MUST(cudaEventElapsedTime(&ms, begin, end));
		least = ms < least ? ms : least;
	}
	printf("%s %.3f ms\n%s_registers %d registers\n", name, least, name, attributes.numRegs);
	leave(name, kernel, blocks, threads, run);
}

int main(void)
{
	const int n = 2048, stars = 1 << 15, items = 1 << 15;
	char *memory;
	float *f;

	MUST(cudaMalloc(&memory, (size_t)256 << 20));
	MUST(cudaMemset(memory, 0, (size_t)256 << 20));
	f = (float *)(memory + 4096);
	figure("matrix", (void *)matrix, n / TILE * (n / TILE), TILE * TILE, [=] {
		dim3 blocks(n / TILE, n / TILE), threads(TILE, TILE);

		matrix<<<blocks, threads>>>(f, f + n * n, f + 2 * n * n, n);
	});
	figure("bodies", (void *)bodies, stars / 256, 256, [=] {
		bodies<<<stars / 256, 256>>>((float4 *)f, (float4 *)f + stars, stars);
	});
	figure("monte", (void *)monte, 1024, 256, [=] {
		monte<<<1024, 256>>>((unsigned long long *)memory, 500);
	});
	figure("queue", (void *)queue, 264, 256, [=] {
		MUST(cudaMemsetAsync(memory + 8, 0, 4));
		queue<<<264, 256>>>((unsigned *)(memory + 8), f, items);
	});
	return 0;
}
