/* SPDX-License-Identifier: Apache-2.0
 * own_ptx FILE ROUNDS: a program that loads the PTX of its kernel itself (FILE is this file,
 * compiled by nvcc -ptx), and knows nothing of points: with GPUCKPT_KERNELS=turns the kernel gets
 * some. Its last line is a sum of what it made; a round takes about a microsecond. */
#include "driver.h"

#include <fstream>
#include <sstream>
#include <vector>

#define BLOCKS 132
#define THREADS 256

extern "C" __global__ void turns(unsigned long long *out, unsigned rounds)
{
	__shared__ unsigned long long box[THREADS];
	unsigned long long x = blockIdx.x * blockDim.x + threadIdx.x, *mine = out + x;

	for (unsigned i = 0; i < rounds; i++) {
		box[threadIdx.x] = x;
		__syncthreads();
		unsigned long long y = box[(threadIdx.x + 1 + i) % THREADS];
		for (int k = 0; k < 40; k++)
			x = x * 6364136223846793005ull + y;
		__syncthreads();
	}
	*mine += x;
}

int main(int argc, char **argv)
{
	std::vector<unsigned long long> words(BLOCKS * THREADS);
	unsigned rounds = argc == 3 ? atoi(argv[2]) : 0;
	unsigned long long sum = 0;
	std::stringstream text;
	CUdeviceptr out;
	CUmodule module;
	CUfunction function;
	void *arguments[] = {&out, &rounds};

	if (!rounds)
		return 2;
	text << std::ifstream(argv[1]).rdbuf();
	gpu_init();
	MUST(cuModuleLoadData(&module, text.str().c_str()));
	MUST(cuModuleGetFunction(&function, module, "turns"));
	MUST(cuMemAlloc(&out, words.size() * 8));
	MUST(cuMemsetD8(out, 1, words.size() * 8));
	gpu_say_started();
	double begin = gpu_ms();
	for (int i = 0; i < 3; i++)
		MUST(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments,
				    NULL));
	MUST(cuMemcpyDtoH(words.data(), out, words.size() * 8));
	fprintf(stderr, "all: %.0f ms, %s points\n", gpu_ms() - begin,
		cuModuleGetGlobal(&out, NULL, module, "turns$ckpt") ? "without" : "with");
	for (unsigned long long w : words)
		sum = sum * 31 + w;
	printf("%llx\n", sum);
	return 0;
}
