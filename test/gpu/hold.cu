/* SPDX-License-Identifier: Apache-2.0
 * hold GIB check|pool|triad|grow: a program with GIB GiB of data on the device; pool: in
 * stream-ordered memory; grow: it allocates as much again as soon as GPUCKPT_SELF has a file
 * "grow". It checks all data repeatedly ("checked BAD": the number of wrong words), or runs a
 * kernel that needs all the device's bandwidth repeatedly ("turn END MS": the milliseconds of one
 * turn). It ends when it is killed. With GPUCKPT_PIECE_MIB the checked data is in allocations of
 * that size, by cuMemCreate and cuMemMap. */
#include "driver.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define WORK (2 * GIB)
#define BATCH 16
#define GRID 132 * 8, 256

static unsigned long long *bad;

__global__ static void check(const uint64_t *p, uint64_t first, size_t n, unsigned long long *wrong)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		if (p[i] != word(first + i))
			atomicAdd(wrong, 1);
}

__global__ static void triad(float4 *x, const float4 *y, const float4 *z, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		x[i] = make_float4(y[i].x + 2 * z[i].x, y[i].y + 2 * z[i].y, y[i].z + 2 * z[i].z,
				   y[i].w + 2 * z[i].w);
}

static void check_all(uint64_t **parts, size_t n)
{
	unsigned long long wrong = 0;

	MUST(cudaMemset(bad, 0, sizeof *bad));
	for (size_t i = 0; i < n; i++)
		check<<<GRID>>>(parts[i], i * (GIB / 8), GIB / 8, bad);
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	printf("checked %llu\n", wrong);
	fflush(stdout);
	usleep(100000);
}

static void run_triad(void)
{
	float4 *v[3];
	cudaEvent_t first, last;
	float ms;

	MUST(cudaEventCreate(&first));
	MUST(cudaEventCreate(&last));
	for (int i = 0; i < 3; i++) {
		MUST(cudaMalloc(&v[i], WORK));
		MUST(cudaMemset(v[i], 0, WORK));
	}
	printf("ready\n");
	for (;;) {
		MUST(cudaEventRecord(first));
		for (int i = 0; i < BATCH; i++)
			triad<<<GRID>>>(v[0], v[1], v[2], WORK / sizeof *v[0]);
		MUST(cudaEventRecord(last));
		MUST(cudaEventSynchronize(last));
		MUST(cudaEventElapsedTime(&ms, first, last));
		printf("turn %.1f %.4f\n", gpu_ms(), ms / BATCH);
		fflush(stdout);
	}
}

static uint64_t *take_in_pieces(size_t bytes, size_t piece)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUdeviceptr at;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	bytes = (bytes + piece - 1) / piece * piece;
	MUST(cuMemAddressReserve(&at, bytes, 0, 0, 0));
	for (size_t done = 0; done < bytes; done += piece) {
		CUmemGenericAllocationHandle handle;

		MUST(cuMemCreate(&handle, piece, &prop, 0));
		MUST(cuMemMap(at + done, piece, 0, handle, 0));
		MUST(cuMemRelease(handle));
	}
	MUST(cuMemSetAccess(at, bytes, &access, 1));
	return (uint64_t *)at;
}

static uint64_t *take(size_t bytes)
{
	const char *mib = getenv("GPUCKPT_PIECE_MIB");
	uint64_t *p;

	if (mib)
		return take_in_pieces(bytes, strtoul(mib, NULL, 10) * MIB);
	MUST(cudaMalloc(&p, bytes));
	return p;
}

static void take_all(uint64_t **parts, size_t first, size_t n)
{
	for (size_t i = first; i < n; i++) {
		parts[i] = take(GIB);
		fill<<<GRID>>>(parts[i], i * (GIB / 8), GIB / 8);
	}
	MUST(cudaDeviceSynchronize());
}

static bool must_grow(void)
{
	const char *where = getenv("GPUCKPT_SELF");
	char path[300];

	snprintf(path, sizeof path, "%s/grow", where ? where : "/nowhere");
	return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t **parts = (uint64_t **)calloc(2 * n + 1, sizeof *parts);
	bool grows = argc > 2 && !strcmp(argv[2], "grow");

	if (argc != 3)
		return 2;
	gpu_init();
	MUST(cudaMalloc(&bad, sizeof *bad));
	take_all(parts, 0, n);
	if (!strcmp(argv[2], "triad"))
		run_triad();
	for (;;) {
		if (grows && must_grow()) {
			take_all(parts, n, 2 * n);
			n *= 2;
			grows = false;
		}
		check_all(parts, n);
	}
}
