/* SPDX-License-Identifier: Apache-2.0
 * named KERNEL TIMES: one of kernels.h, so many times its work without a wait (compiled by gckcc).
 * Its last line is a sum of what it made. */
#include "driver.h"

#include <stdint.h>
#include <string>
#include <vector>

#include "kernels.h"

static const struct kernel *find(const char *name)
{
	for (const struct kernel &k : all_kernels)
		if (!strcmp(k.name, name))
			return &k;
	fprintf(stderr, "there is no kernel %s\n", name);
	exit(2);
}

/* By gckcc, or by kernels=. */
static bool has_points(const struct kernel *k)
{
	CUdeviceptr variable;
	CUlibrary library;
	cudaKernel_t kernel;
	const char *symbol;
	size_t size;

	MUST(cudaGetKernel(&kernel, k->function));
	MUST(cuKernelGetName(&symbol, (CUkernel)kernel));
	MUST(cuKernelGetLibrary(&library, (CUkernel)kernel));
	return !cuLibraryGetGlobal(&variable, &size, library,
				   (std::string(symbol) + "$ckpt").c_str());
}

int main(int argc, char **argv)
{
	std::vector<uint32_t> words(KERNELS_BYTES / 4);
	const struct kernel *k = find(argc == 3 ? argv[1] : "");
	uint64_t sum = 0;
	char *memory;

	for (size_t i = 0; i < words.size(); i++) {
		float value = (float)(i * 2654435761u >> 20) / 4096;

		memcpy(&words[i], &value, 4);
	}
	memset(words.data(), 0, 4096);
	MUST(cudaMalloc(&memory, KERNELS_BYTES));
	MUST(cudaMemcpy(memory, words.data(), KERNELS_BYTES, cudaMemcpyHostToDevice));
	gpu_say_started();
	double begin = gpu_ms();
	k->run(memory, atoi(argv[2]));
	MUST(cudaGetLastError());
	MUST(cudaMemcpy(words.data(), memory, KERNELS_BYTES, cudaMemcpyDeviceToHost));
	fprintf(stderr, "%s: %.0f ms, %s points\n", k->name, gpu_ms() - begin,
		has_points(k) ? "with" : "without");
	for (uint32_t w : words)
		sum = sum * 31 + w;
	printf("%s %llx\n", k->name, (unsigned long long)sum);
	return 0;
}
