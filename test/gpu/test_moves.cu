/* SPDX-License-Identifier: Apache-2.0
 * A process that the driver's checkpoint has moved to another device: the behaviour on which
 * shim/cuda relies at its later checkpoints. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define SIZE (256 * MIB)
#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

#define GPUS 16 /* of the machine; pairs name all of them */

static int gpus;
static CUuuid gpu[GPUS];
static CUcheckpointGpuPair pairs[GPUS];
static CUcheckpointRestoreArgs args;
static CUdeviceptr at;
static CUmemGenericAllocationHandle handle;

/* Pairs that replace the first two GPUs by those with these numbers. */
static CUcheckpointRestoreArgs *onto(int first, int second)
{
	memset(pairs, 0, sizeof pairs);
	memset(&args, 0, sizeof args);
	for (int i = 0; i < gpus; i++) {
		pairs[i].oldUuid = gpu[i];
		pairs[i].newUuid = gpu[i > 1 ? i : i ? second : first];
	}
	args.gpuPairs = pairs;
	args.gpuPairsCount = gpus;
	return &args;
}

static void checkpoint(CUcheckpointRestoreArgs *where)
{
	struct gpu_self s = {};

	s.shrink = true;
	s.onto = where;
	CHECK(gpu_self_checkpoint(&s));
}

/* The number of the GPU that the process has. */
static int here(void)
{
	CUuuid now;

	MUST(cuDeviceGetUuid(&now, 0));
	return !memcmp(&now, &gpu[0], sizeof now) ? 0 : !memcmp(&now, &gpu[1], sizeof now) ? 1 : -1;
}

static int make(void)
{
	CUmemAllocationProp prop;
	int fd;

	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = DESCRIPTOR;
	MUST(cuMemCreate(&handle, SIZE, &prop, 0));
	MUST(cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
	return fd;
}

static void map(void)
{
	CUmemAccessDesc access = {};

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemMap(at, SIZE, 0, handle, 0));
	MUST(cuMemSetAccess(at, SIZE, &access, 1));
}

static void unmap(void)
{
	MUST(cuCtxSynchronize());
	MUST(cuMemUnmap(at, SIZE));
	MUST(cuMemRelease(handle));
}

static CUresult import(int fd)
{
	return cuMemImportFromShareableHandle(&handle, (void *)(long)fd, DESCRIPTOR);
}

/* Whether memory that was made before can be imported after a checkpoint with these pairs. */
static bool survives(int fd, CUcheckpointRestoreArgs *where)
{
	unsigned last = 0;

	checkpoint(where);
	if (import(fd))
		return false;
	map();
	MUST(cuMemcpyDtoH(&last, at + SIZE - 4, sizeof last));
	unmap();
	CHECK(last == 7);
	return true;
}

/* Makes memory that the driver forgets. Returns its descriptor. */
static int memory(void)
{
	int fd = make();

	map();
	MUST(cuMemsetD32(at, 7, SIZE / 4));
	unmap();
	return fd;
}

static void reserve(void)
{
	MUST(cuMemAddressReserve(&at, SIZE, 0, 0, 0));
	CHECK(here() == 0);
}

static void never_moved(void)
{
	int fd;

	reserve();
	fd = memory();
	CHECK(survives(fd, NULL));
	CHECK(survives(fd, onto(0, 1)));
	CHECK(survives(fd, NULL));
}

/* Whether it can be mapped as external memory, which works nevertheless (below 512 MiB:
 * doc/cuda-driver.md). */
static bool maps_as_external(int fd)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {};
	CUexternalMemory memory;
	CUdeviceptr there;
	unsigned last = 0;

	of.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	of.handle.fd = dup(fd);
	of.size = all.size = SIZE;
	if (cuImportExternalMemory(&memory, &of))
		return false;
	MUST(cuExternalMemoryGetMappedBuffer(&there, memory, &all));
	MUST(cuMemcpyDtoH(&last, there + SIZE - 4, sizeof last));
	MUST(cuMemFree(there));
	MUST(cuDestroyExternalMemory(memory));
	return last == 7;
}

/* The process stays there and can import nothing, with and without pairs. */
static void moved(void)
{
	int fd;

	reserve();
	checkpoint(onto(1, 0));
	CHECK(here() == 1);
	fd = memory();
	CHECK(import(fd) == CUDA_ERROR_NOT_INITIALIZED);
	CHECK(!survives(fd, NULL) && here() == 1);
	CHECK(maps_as_external(fd));
	CHECK(!survives(fd, onto(0, 1)) && here() == 1);
}

static void moved_back(void)
{
	int fd;

	reserve();
	checkpoint(onto(1, 0));
	checkpoint(onto(1, 0));
	CHECK(here() == 0);
	fd = memory();
	CHECK(survives(fd, NULL));
}

/* In a process of its own, since this one must see only the first. */
static void find_gpus(void)
{
	int ends[2];

	CHECK(!pipe(ends));
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (fork() == 0) {
		MUST(cuInit(0));
		MUST(cuDeviceGetCount(&gpus));
		for (int i = 0; i < gpus && i < GPUS; i++)
			MUST(cuDeviceGetUuid(&gpu[i], i));
		_exit(write(ends[1], gpu, sizeof gpu) != sizeof gpu ||
		      write(ends[1], &gpus, sizeof gpus) != sizeof gpus);
	}
	close(ends[1]);
	CHECK(read(ends[0], gpu, sizeof gpu) == sizeof gpu &&
	      read(ends[0], &gpus, sizeof gpus) == sizeof gpus);
	close(ends[0]);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
}

static const struct gpu_case cases[] = {
	{"never_moved", never_moved},
	{"moved", moved},
	{"moved_back", moved_back},
};

int main(int argc, char **argv)
{
	find_gpus();
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
