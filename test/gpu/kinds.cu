/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct kinds kinds;

__global__ static void count_up(unsigned *p)
{
	p[threadIdx.x]++;
}

void kinds_make_pinned(void)
{
	int fd = memfd_create("pinned", MFD_CLOEXEC);

	CHECK(!ftruncate(fd, (off_t)kinds.pinned_bytes));
	MUST(cudaHostAlloc((void **)&kinds.pinned[0].words, kinds.pinned_bytes, cudaHostAllocMapped));
	kinds.pinned[1].words = (volatile unsigned *)mmap(NULL, kinds.pinned_bytes, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	kinds.pinned[2].words = (volatile unsigned *)mmap(NULL, kinds.pinned_bytes, PROT_READ | PROT_WRITE,
						    MAP_SHARED, fd, 0);
	for (int i = 0; i < 3; i++) {
		memset((void *)kinds.pinned[i].words, 0, kinds.pinned_bytes);
		if (i)
			MUST(cudaHostRegister((void *)kinds.pinned[i].words, kinds.pinned_bytes,
					      cudaHostRegisterMapped));
		MUST(cudaHostGetDevicePointer((void **)&kinds.pinned[i].device, (void *)kinds.pinned[i].words, 0));
	}
}

void kinds_make_mapped(void)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUmemGenericAllocationHandle handle;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemAddressReserve((CUdeviceptr *)&kinds.mapped, 4 * KINDS_SIZE, 0, 0, 0));
	for (size_t at = 0; at < 2 * KINDS_SIZE; at += 4 * MIB) {
		MUST(cuMemCreate(&handle, 4 * MIB, &prop, 0));
		MUST(cuMemMap((CUdeviceptr)kinds.mapped + at, 4 * MIB, 0, handle, 0));
		MUST(cuMemRelease(handle));
	}
	MUST(cuMemSetAccess((CUdeviceptr)kinds.mapped, 2 * KINDS_SIZE, &access, 1));
	MUST(cudaMemset(kinds.mapped, 9, 2 * KINDS_SIZE));
}

void kinds_make_pool(void)
{
	MUST(cudaMallocAsync(&kinds.pool, KINDS_SIZE, NULL));
	MUST(cudaMemsetAsync(kinds.pool, 5, KINDS_SIZE, NULL));
}

/* Each is mixed, and what is freed in order is taken again. */
void kinds_use(unsigned i, cudaStream_t stream)
{
	unsigned *more;

	if (kinds.pool) {
		kinds_mix(kinds.pool, KINDS_SIZE, i, stream);
		MUST(cudaMallocAsync(&more, KINDS_SIZE, stream));
		MUST(cudaMemcpyAsync(more, kinds.pool, KINDS_SIZE, cudaMemcpyDeviceToDevice, stream));
		kinds_mix(more, KINDS_SIZE, i, stream);
		MUST(cudaMemcpyAsync(kinds.pool, more, KINDS_SIZE, cudaMemcpyDeviceToDevice, stream));
		MUST(cudaFreeAsync(more, stream));
	}
	if (kinds.mapped)
		kinds_mix(kinds.mapped, 2 * KINDS_SIZE, i, stream);
	for (int k = 0; kinds.pinned_bytes && k < 3; k++)
		count_up<<<1, 512, 0, stream>>>(kinds.pinned[k].device + KINDS_WORDS);
}

unsigned kinds_sum(const unsigned *p, size_t size)
{
	unsigned *copy = (unsigned *)malloc(size), sum = 0;

	MUST(cudaMemcpy(copy, p, size, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < size / sizeof *copy; i++)
		sum = sum * 33 + copy[i];
	free(copy);
	return sum;
}

bool kinds_counted(unsigned rounds)
{
	for (int k = 0; kinds.pinned_bytes && k < 3; k++)
		for (int i = 0; i < 512; i++)
			if (kinds.pinned[k].words[KINDS_WORDS + i] != rounds)
				return false;
	return true;
}
