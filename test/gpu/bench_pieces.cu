/* SPDX-License-Identifier: Apache-2.0
 * The cost of the program's own physical memory in allocations of 20 MiB: run with and without the
 * stand-in for libcuda.so.1. The device is filled, emptied, and filled again at once, as by a
 * program that lacks memory: all of it must be available. */
#include "driver.h"

#include <stdlib.h>

#define PIECE (20 * MIB)
#define SPARE (2 * GIB)

static CUdeviceptr at;
static size_t n;

static void fill(const char *name)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	double start = gpu_ms();

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (size_t i = 0; i < n; i++) {
		CUmemGenericAllocationHandle handle;

		MUST(cuMemCreate(&handle, PIECE, &prop, 0));
		MUST(cuMemMap(at + i * PIECE, PIECE, 0, handle, 0));
		MUST(cuMemRelease(handle));
		MUST(cuMemSetAccess(at + i * PIECE, PIECE, &access, 1));
	}
	gpu_figure(name, (gpu_ms() - start) * 1e3 / n, "us");
}

int main(void)
{
	size_t available, total;
	double start;

	gpu_init();
	MUST(cuMemGetInfo(&available, &total));
	n = available > SPARE ? (available - SPARE) / PIECE : 1;
	MUST(cuMemAddressReserve(&at, n * PIECE, 0, 0, 0));
	fill("piece_made");
	start = gpu_ms();
	MUST(cuMemUnmap(at, n * PIECE));
	gpu_figure("piece_dropped", (gpu_ms() - start) * 1e3 / n, "us");
	fill("piece_made_at_once");
	return 0;
}
