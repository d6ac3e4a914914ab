/* SPDX-License-Identifier: Apache-2.0
 * The hash that the device computes of its memory is the store's (XXH3-128), and its cost. Takes
 * the path of shim/cuda/snapshot/hash.ptx from GPUCKPT_TEST_PTX. */
#include "driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define PAGE_GROUP ((size_t)256 << 10)
#define PAGE 4096

/* xxhsum -H128 of this many bytes of word()'s numbers. */
static const struct {
	size_t size;
	uint64_t hi, lo;
} known[] = {
	{4096, 0x7618e9844bfcfa94ull, 0x7e4f8a7fbfb6dcb3ull},
	{8192, 0x8d4ad91d2ee46ff0ull, 0x708de07c27228f53ull},
	{65536, 0x8bdc59f6e954d510ull, 0x98c0b93afff68d6cull},
	{204800, 0x9aa782f089d8b891ull, 0xed697d28ee147ecfull},
	{262144, 0x85c1c046debbd54cull, 0x9f82ec0c96673442ull},
};

static CUfunction kernel;

static uint64_t word(uint64_t i)
{
	uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void load(void)
{
	static char text[1 << 20];
	const char *path = getenv("GPUCKPT_TEST_PTX");
	FILE *f = fopen(path ? path : "shim/cuda/snapshot/hash.ptx", "r");
	CUmodule module;

	gpu_init();
	CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	double start = gpu_ms();
	MUST(cuModuleLoadData(&module, text));
	printf("#   loaded in %.1f ms\n", gpu_ms() - start);
	MUST(cuModuleGetFunction(&kernel, module, "gck_hash_kernel"));
}

static void hash(CUdeviceptr address, size_t size, CUdeviceptr out)
{
	uint64_t n = (address + size - 1) / PAGE_GROUP - address / PAGE_GROUP + 1;
	uint64_t a = address, s = size, o = out;
	void *arguments[] = {&a, &s, &o};

	MUST(cuLaunchKernel(kernel, (unsigned)((n * 8 + 255) / 256), 1, 1, 256, 1, 1, 0, 0,
			    arguments, NULL));
}

static void known_answers(void)
{
	CUdeviceptr data, out;
	std::vector<uint64_t> words(PAGE_GROUP / 8);
	uint64_t got[2];

	load();
	MUST(cuMemAlloc(&data, PAGE_GROUP));
	MUST(cuMemAlloc(&out, PAGE));
	CHECK(data % PAGE_GROUP == 0);
	for (size_t i = 0; i < words.size(); i++)
		words[i] = word(i);
	MUST(cuMemcpyHtoD(data, words.data(), PAGE_GROUP));
	for (const auto &k : known) {
		hash(data, k.size, out);
		MUST(cuMemcpyDtoH(got, out, sizeof got));
		if (got[0] != k.hi || got[1] != k.lo)
			printf("#   %zu: %016llx%016llx\n", k.size, (unsigned long long)got[0],
			       (unsigned long long)got[1]);
		CHECK(got[0] == k.hi && got[1] == k.lo);
	}
}

/* A range that begins and ends within page groups has its parts' hashes. Nothing else is
 * written. */
static void parts(void)
{
	const size_t begin = 5 * PAGE, size = 40 * PAGE_GROUP + 3 * PAGE;
	const uint64_t n = (begin + size - 1) / PAGE_GROUP + 1;
	CUdeviceptr data, all, one;
	std::vector<uint64_t> words((begin + size) / 8), got(2 * n + 2);

	load();
	MUST(cuMemAlloc(&data, begin + size));
	MUST(cuMemAlloc(&all, 8 * got.size()));
	MUST(cuMemAlloc(&one, PAGE));
	CHECK(data % PAGE_GROUP == 0);
	for (size_t i = 0; i < words.size(); i++)
		words[i] = word(i);
	MUST(cuMemcpyHtoD(data, words.data(), 8 * words.size()));
	MUST(cuMemsetD8(all, 0x5a, 8 * got.size()));
	hash(data + begin, size, all);
	MUST(cuMemcpyDtoH(got.data(), all, 8 * got.size()));
	CHECK(got[2 * n] == 0x5a5a5a5a5a5a5a5aull);
	for (uint64_t i = 0; i < n; i++) {
		size_t from = i ? i * PAGE_GROUP : begin, to = (i + 1) * PAGE_GROUP;
		uint64_t alone[2];

		to = to < begin + size ? to : begin + size;
		hash(data + from, to - from, one);
		MUST(cuMemcpyDtoH(alone, one, sizeof alone));
		CHECK(alone[0] == got[2 * i] && alone[1] == got[2 * i + 1]);
		CHECK(i == 0 || alone[1] != got[2 * i - 1]);
	}
}

/* The hashes go to pinned host memory, as in the shim. */
static void rate(void)
{
	const size_t size = 16 * GIB;
	CUdeviceptr data;
	void *out;
	double start, ms;

	load();
	MUST(cuMemAlloc(&data, size));
	MUST(cuMemsetD8(data, 7, size));
	MUST(cuMemHostAlloc(&out, size / PAGE_GROUP * 16, 0));
	hash(data, size, (CUdeviceptr)out);
	MUST(cuCtxSynchronize());
	start = gpu_ms();
	hash(data, size, (CUdeviceptr)out);
	MUST(cuCtxSynchronize());
	ms = gpu_ms() - start;
	gpu_figure("hash_rate", (double)size / ms / 1e6, "GB/s");
}

static const struct gpu_case cases[] = {
	{"known_answers", known_answers},
	{"parts", parts},
	{"rate", rate},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
