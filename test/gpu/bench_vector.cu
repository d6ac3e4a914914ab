/* SPDX-License-Identifier: Apache-2.0
 * Jiang et al.'s vector addition: 256 to 32,768 elements, with the vectors in each of four kinds of
 * host memory. Compiled by nvcc, which ignores the pragma, and by gckcc; then also with a kernel
 * that leaves and goes on. Times are the least of many, of copies, kernel and wait together. */
#include <cuda.h>
#include <string.h>
#include <time.h>

#include "must_run.h"

#define THREADS 256
#define ELEMENTS_MOST 32768
#define TIMES 200

__global__ void add(const float *a, const float *b, float *c)
{
	int i = blockIdx.x * THREADS + threadIdx.x;
	float x = a[i], y = b[i];
#pragma CPT
	c[i] = x + y;
}

struct vectors {
	float *a, *b, *c;
};

enum mode { PAGEABLE, PINNED, WRITE_COMBINED, MAPPED, MODES };
static const char *const names[] = {"pageable", "pinned", "write_combined", "mapped"};
static const unsigned flags[] = {0, cudaHostAllocDefault, cudaHostAllocWriteCombined,
				 cudaHostAllocMapped};

static struct vectors host, device, seen; /* seen: by the kernel */
static unsigned long long words[6];        /* of the kernel's points; [0]: 0 without */
static CUdeviceptr variable, word;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static float *vector_of(enum mode mode)
{
	void *at = malloc(ELEMENTS_MOST * sizeof(float));

	if (mode != PAGEABLE) {
		free(at);
		MUST_RUN(cudaHostAlloc(&at, ELEMENTS_MOST * sizeof(float), flags[mode]));
	}
	for (int i = 0; i < ELEMENTS_MOST; i++)
		((float *)at)[i] = (float)i;
	return (float *)at;
}

static void use(enum mode mode)
{
	host = {vector_of(mode), vector_of(mode), vector_of(mode)};
	seen = device;
	if (mode == MAPPED) {
		MUST_RUN(cudaHostGetDevicePointer(&seen.a, host.a, 0));
		MUST_RUN(cudaHostGetDevicePointer(&seen.b, host.b, 0));
		MUST_RUN(cudaHostGetDevicePointer(&seen.c, host.c, 0));
	}
}

static void run_kernel(int n)
{
	add<<<n / THREADS, THREADS>>>(seen.a, seen.b, seen.c);
}

/* The kernel leaves at its begin, and goes on. */
static void leave_and_go_on(int n)
{
	unsigned long long go_on = 1ull << 32;

	cuMemsetD32Async(word, 1, 1, 0);
	run_kernel(n);
	cuMemsetD32Async(word, 0, 1, 0);
	cuMemcpyHtoDAsync(variable + 16, &go_on, 8, 0);
	run_kernel(n);
}

static double least_us(enum mode mode, int n, void (*run)(int))
{
	size_t bytes = n * sizeof(float);
	double least = 1e9, us;

	for (int i = 0; i < TIMES; i++) {
		memset(host.c, 0, bytes);
		if (words[0])
			MUST_RUN(cudaMemset((void *)words[1], 0, word - words[1]));
		MUST_RUN(cudaDeviceSynchronize());
		us = now_us();
		if (mode != MAPPED) {
			MUST_RUN(cudaMemcpyAsync(seen.a, host.a, bytes, cudaMemcpyDefault));
			MUST_RUN(cudaMemcpyAsync(seen.b, host.b, bytes, cudaMemcpyDefault));
		}
		run(n);
		MUST_RUN(cudaGetLastError());
		if (mode != MAPPED)
			MUST_RUN(cudaMemcpyAsync(host.c, seen.c, bytes, cudaMemcpyDefault));
		MUST_RUN(cudaDeviceSynchronize());
		us = now_us() - us;
		least = us < least ? us : least;
		for (int k = 0; k < n; k++)
			if (host.c[k] != 2.f * k) {
				fprintf(stderr, "element %d is wrong\n", k);
				exit(1);
			}
		if (words[0])
			cuMemsetD32(variable + 16, 0, 2);
	}
	return least;
}

/* Records for the largest grid, if the kernel has points. */
static void find_points(void)
{
	CUlibrary library;
	cudaKernel_t k;
	size_t bytes;
	char *records;

	MUST_RUN(cudaGetKernel(&k, (const void *)add));
	if (cuKernelGetLibrary(&library, (CUkernel)k) ||
	    cuLibraryGetGlobal(&variable, &bytes, library, "_Z3addPKfS0_Pf$ckpt"))
		return;
	MUST_RUN(cudaMemcpy(words, (void *)variable, sizeof words, cudaMemcpyDefault));
	bytes = ELEMENTS_MOST / THREADS * (16 + words[4] + (words[3] * THREADS + 15) / 16 * 16);
	MUST_RUN(cudaMalloc(&records, bytes + 16));
	MUST_RUN(cudaMemset(records, 0, bytes + 16));
	words[0] = word = (CUdeviceptr)records + bytes;
	words[1] = (unsigned long long)records;
	MUST_RUN(cudaMemcpy((void *)variable, words, 16, cudaMemcpyDefault));
	printf("vector_record %llu bytes\n", words[3]);
}

int main(void)
{
	MUST_RUN(cudaMalloc(&device.a, ELEMENTS_MOST * sizeof(float)));
	MUST_RUN(cudaMalloc(&device.b, ELEMENTS_MOST * sizeof(float)));
	MUST_RUN(cudaMalloc(&device.c, ELEMENTS_MOST * sizeof(float)));
	find_points();
	for (int mode = 0; mode < MODES; mode++) {
		use((enum mode)mode);
		for (int n = 256; n <= ELEMENTS_MOST; n *= 2) {
			printf("vector_%s_%d %.2f us\n", names[mode], n,
			       least_us((enum mode)mode, n, run_kernel));
			if (words[0])
				printf("vector_%s_%d_left %.2f us\n", names[mode], n,
				       least_us((enum mode)mode, n, leave_and_go_on));
		}
	}
	return 0;
}
