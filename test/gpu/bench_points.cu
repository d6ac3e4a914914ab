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

#include "kernels.h"

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* The kernel is asked to leave in its middle. */
static void leave(const struct kernel *kernel, char *memory)
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

	MUST_RUN(cudaGetKernel(&k, kernel->function));
	if (cuKernelGetName(&symbol, (CUkernel)k) || cuKernelGetLibrary(&library, (CUkernel)k) ||
	    cuLibraryGetGlobal(&variable, &bytes, library,
			       (std::string(symbol) + "$ckpt").c_str()))
		return;
	MUST_RUN(cudaMemcpy(words, (void *)variable, sizeof words, cudaMemcpyDefault));
	bytes = kernel->blocks *
		(16 + words[4] + (words[3] * kernel->threads + 15) / 16 * 16);
	MUST_RUN(cudaMalloc(&records, bytes + 256));
	word = (CUdeviceptr)(records + bytes);
	word = (word + 15) / 16 * 16;
	MUST_RUN(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
	words[0] = word;
	words[1] = (unsigned long long)records;
	MUST_RUN(cudaMemcpy((void *)variable, words, 16, cudaMemcpyDefault));
	for (int i = 0; i < 5; i++) {
		double begin, ms;

		MUST_RUN(cudaMemset(records, 0, bytes + 256));
		MUST_RUN(cudaDeviceSynchronize());
		kernel->run(memory, 1);
		begin = now_ms();
		while (now_ms() < begin + 0.05 * (i + 1))
			;
		begin = now_ms();
		if (cuStreamWriteValue32((CUstream)beside, word, 1, 0))
			exit(2);
		MUST_RUN(cudaDeviceSynchronize());
		ms = now_ms() - begin;
		worst = ms > worst ? ms : worst;
	}
	words[0] = 0;
	MUST_RUN(cudaMemcpy((void *)variable, words, 8, cudaMemcpyDefault));
	MUST_RUN(cudaFree(records));
	printf("%s_leave %.3f ms\n%s_record %llu bytes\n", kernel->name, worst, kernel->name,
	       words[3]);
}

static void figure(const struct kernel *kernel, char *memory)
{
	cudaEvent_t begin, end;
	cudaFuncAttributes attributes;
	float least = 1e9, ms;

	MUST_RUN(cudaFuncGetAttributes(&attributes, kernel->function));
	MUST_RUN(cudaEventCreate(&begin));
	MUST_RUN(cudaEventCreate(&end));
	for (int i = 0; i < 6; i++) {
		MUST_RUN(cudaEventRecord(begin));
		kernel->run(memory, 1);
		MUST_RUN(cudaGetLastError());
		MUST_RUN(cudaEventRecord(end));
		MUST_RUN(cudaEventSynchronize(end));
		MUST_RUN(cudaEventElapsedTime(&ms, begin, end));
		least = ms < least ? ms : least;
	}
	printf("%s %.3f ms\n%s_registers %d registers\n", kernel->name, least, kernel->name,
	       attributes.numRegs);
	leave(kernel, memory);
}

int main(void)
{
	char *memory;

	MUST_RUN(cudaMalloc(&memory, KERNELS_BYTES));
	MUST_RUN(cudaMemset(memory, 0, KERNELS_BYTES));
	for (const struct kernel &k : all_kernels)
		figure(&k, memory);
	return 0;
}
