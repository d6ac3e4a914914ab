/* SPDX-License-Identifier: Apache-2.0
 * A program on two devices for gpu_lineage: `pair ROUNDS MIB`. Each device has MIB MiB, a context
 * and a stream. In each round each device adds what it reads from the other: by peer access to
 * memory of cudaMalloc, and in memory of cuMemCreate to which both have access. Events order the
 * two streams. The last line has a sum of all memory. */
#include "driver.h"
#include "words.h"

#include <stdlib.h>

#define SHARED (64 * MIB)
#define GRID 264, 256

static struct {
	cudaStream_t stream;
	cudaEvent_t done;
	uint64_t *words;      /* of cudaMalloc; the other device reads them */
	CUdeviceptr shared;   /* of this device by cuMemCreate; both write there */
} of[2];
static size_t n;

__global__ static void add(uint64_t *mine, const uint64_t *others, uint64_t *shared, size_t count,
			   size_t shared_count, unsigned round)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x) {
		mine[i] = mine[i] * 6364136223846793005ull + others[i] + round;
		if (i < shared_count)
			shared[i] += mine[i];
	}
}

__global__ static void sum(const uint64_t *p, size_t count, unsigned long long *total)
{
	unsigned long long part = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		part += p[i] ^ i;
	atomicAdd(total, part);
}

static CUdeviceptr shared_on(int device)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access[2] = {};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	for (int i = 0; i < 2; i++) {
		access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access[i].location.id = i;
		access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	MUST(cuMemAddressReserve(&at, SHARED, 0, 0, 0));
	MUST(cuMemCreate(&handle, SHARED, &prop, 0));
	MUST(cuMemMap(at, SHARED, 0, handle, 0));
	MUST(cuMemRelease(handle));
	MUST(cuMemSetAccess(at, SHARED, access, 2));
	return at;
}

static void begin(int device)
{
	MUST(cudaSetDevice(device));
	MUST(cudaDeviceEnablePeerAccess(1 - device, 0));
	MUST(cudaStreamCreateWithFlags(&of[device].stream, cudaStreamNonBlocking));
	MUST(cudaEventCreateWithFlags(&of[device].done, cudaEventDisableTiming));
	MUST(cudaMalloc(&of[device].words, n * 8));
	fill<<<GRID>>>(of[device].words, device * n, n);
	of[device].shared = shared_on(device);
	MUST(cuMemsetD32(of[device].shared, device, SHARED / 4));
	MUST(cudaDeviceSynchronize());
}

/* The other's work of the round before is done. It adds to the other's shared memory. */
static void step(int device, unsigned round)
{
	const int other = 1 - device;

	MUST(cudaSetDevice(device));
	MUST(cudaStreamWaitEvent(of[device].stream, of[other].done, 0));
	add<<<GRID, 0, of[device].stream>>>(of[device].words, of[other].words,
					    (uint64_t *)of[other].shared, n, SHARED / 8, round);
	MUST(cudaGetLastError());
	MUST(cudaEventRecord(of[device].done, of[device].stream));
}

static unsigned long long total(void)
{
	unsigned long long *all, result;

	MUST(cudaSetDevice(0));
	MUST(cudaMallocManaged(&all, sizeof *all));
	*all = 0;
	for (int i = 0; i < 2; i++) {
		MUST(cudaSetDevice(i));
		MUST(cudaDeviceSynchronize());
		sum<<<GRID>>>(of[i].words, n, all);
		sum<<<GRID>>>((uint64_t *)of[i].shared, SHARED / 8, all);
		MUST(cudaDeviceSynchronize());
	}
	result = *all;
	MUST(cudaFree(all));
	return result;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 ? (unsigned)atoi(argv[1]) : 0;

	n = argc == 3 ? strtoul(argv[2], NULL, 10) * MIB / 8 : 0;
	if (!n)
		return 2;
	gpu_init();
	for (int i = 0; i < 2; i++)
		begin(i);
	gpu_say_started();
	for (unsigned round = 0; round < rounds; round++) {
		for (int i = 0; i < 2; i++)
			step(i, round);
		MUST(cudaEventSynchronize(of[1].done));
		usleep(5000);
	}
	printf("sum %llx\n", total());
	return 0;
}
