/* SPDX-License-Identifier: Apache-2.0
 * test_points DIR SECONDS: random kernels of DIR (N.plain, and N.points with points) for so long:
 * plain, and stopped at random moments; their memory is the same in the end. */
#include "driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

#define BLOCKS 256
#define OUT ((size_t)4 << 20)
#define MOST_STOPS 25

struct kernel {
	CUmodule module;
	CUfunction function;
	unsigned threads, dynamic, has_grid;
};

static unsigned stops, launches;

static bool read_file(const char *path, std::string *text)
{
	FILE *f = fopen(path, "r");
	char part[65536];
	size_t n;

	text->clear();
	if (!f)
		return false;
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		text->append(part, n);
	fclose(f);
	return true;
}

static bool load(struct kernel *k, const char *dir, unsigned seed, const char *way)
{
	std::string text, path = std::string(dir) + "/" + std::to_string(seed) + "." + way;

	if (!read_file(path.c_str(), &text))
		return false;
	CHECK(sscanf(text.c_str(), "// threads %u dynamic %u grid %u", &k->threads, &k->dynamic,
		     &k->has_grid) == 3);
	MUST(cuModuleLoadData(&k->module, text.c_str()));
	MUST(cuModuleGetFunction(&k->function, k->module, "k"));
	return true;
}

static void launch(const struct kernel *k, CUdeviceptr out, CUstream stream)
{
	unsigned n = 2, m = 1;
	void *arguments[] = {&out, &n, &m};

	if (k->has_grid)
		MUST(cuLaunchCooperativeKernel(k->function, BLOCKS, 1, 1, k->threads, 1, 1,
					       k->dynamic, stream, arguments));
	else
		MUST(cuLaunchKernel(k->function, BLOCKS, 1, 1, k->threads, 1, 1, k->dynamic,
				    stream, arguments, NULL));
	launches++;
}

/* Runs it with stops: the word is set before a launch, or beside it by another stream. */
static void run_with_stops(const struct kernel *k, CUdeviceptr out, CUdeviceptr variable,
			   CUstream stream, CUstream beside)
{
	uint64_t words[6];
	uint32_t stopped = 1, again = 0;
	CUdeviceptr word, records;
	size_t size;

	MUST(cuMemcpyDtoH(words, variable, sizeof words));
	size = 16 + words[4] + (k->dynamic + 15) / 16 * 16 + (words[3] * k->threads + 15) / 16 * 16;
	MUST(cuMemAlloc(&records, size * BLOCKS));
	MUST(cuMemsetD8(records, 0, size * BLOCKS));
	MUST(cuMemAlloc(&word, 4));
	words[0] = word;
	words[1] = records;
	MUST(cuMemcpyHtoD(variable, words, 16));
	for (unsigned i = 0; stopped; i++) {
		bool early = i < MOST_STOPS && rand() % 3 == 0;

		MUST(cuMemsetD32(word, early, 1));
		MUST(cuMemcpyHtoD(variable + 20, &again, 4));
		MUST(cuCtxSynchronize());
		launch(k, out, stream);
		for (unsigned spin = rand() % 20000; spin; spin--)
			__asm__ volatile("pause");
		if (i < MOST_STOPS)
			MUST(cuMemsetD32Async(word, 1, 1, beside));
		MUST(cuCtxSynchronize());
		MUST(cuMemcpyDtoH(&stopped, word, 4));
		stops += stopped;
		again = 1;
	}
	MUST(cuMemFree(word));
	MUST(cuMemFree(records));
}

static bool same(const char *dir, unsigned seed, CUdeviceptr out, CUstream stream, CUstream beside)
{
	static std::vector<char> a(OUT), b(OUT), c(OUT);
	struct kernel plain, points;
	CUdeviceptr variable;
	bool has_points;

	CHECK(load(&plain, dir, seed, "plain") && load(&points, dir, seed, "points"));
	MUST(cuMemsetD8(out, 0, OUT));
	launch(&plain, out, stream);
	MUST(cuMemcpyDtoH(a.data(), out, OUT));
	MUST(cuMemsetD8(out, 0, OUT));
	launch(&points, out, stream); /* without gpuckpt */
	MUST(cuMemcpyDtoH(b.data(), out, OUT));
	has_points = cuModuleGetGlobal(&variable, NULL, points.module, "k$ckpt") == CUDA_SUCCESS;
	if (has_points) {
		MUST(cuMemsetD8(out, 0, OUT));
		run_with_stops(&points, out, variable, stream, beside);
	}
	MUST(cuMemcpyDtoH(c.data(), out, OUT));
	MUST(cuModuleUnload(plain.module));
	MUST(cuModuleUnload(points.module));
	return !memcmp(a.data(), b.data(), OUT) && !memcmp(a.data(), c.data(), OUT);
}

int main(int argc, char **argv)
{
	double end;
	unsigned seed = 1, different = 0;
	CUdeviceptr out;
	CUstream stream, beside;
	std::string text;

	CHECK(argc == 3);
	gpu_init();
	end = gpu_ms() + atof(argv[2]) * 1000;
	MUST(cuMemAlloc(&out, OUT));
	MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	MUST(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	for (; gpu_ms() < end; seed++) {
		std::string path = std::string(argv[1]) + "/" + std::to_string(seed) + ".points";

		if (!read_file(path.c_str(), &text))
			break;
		if (!same(argv[1], seed, out, stream, beside)) {
			printf("# seed %u differs\n", seed);
			different++;
		}
		if (seed % 25 == 0) {
			printf("# %u kernels, %u launches, %u stops\n", seed, launches, stops);
			fflush(stdout);
		}
	}
	printf("# %u kernels, %u launches, %u stops\n", seed - 1, launches, stops);
	printf("%sok 1 - random kernels that are stopped end with the same memory\n1..1\n",
	       different || seed == 1 ? "not " : "");
	return different || seed == 1;
}
