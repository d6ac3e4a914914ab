/* SPDX-License-Identifier: Apache-2.0
 * Commands that allocate, use and free memory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/test/rank.h"

static CUdeviceptr large, managed;

/* The sum of the device's bytes. */
static int sum(void)
{
	static unsigned char host[SIZE];
	int total = cuMemcpyDtoH(host, rank.data, SIZE) ? -1 : 0;

	for (int i = 0; total >= 0 && i < SIZE; i++)
		total += host[i];
	return total;
}

/* Allocate memory in slabs of its own. */
static int more(void)
{
	return cuMemAlloc(&large, MORE) | cuMemsetD8(large, 5, MORE) | cuCtxSynchronize();
}

static int free_large(void)
{
	return cuMemFree(large);
}

static int change_large(void)
{
	return cuMemsetD8(large, 9, MORE) | cuCtxSynchronize();
}

/* Memory on a second device. */
static CUdeviceptr distant;

static int beside(void)
{
	CUcontext second;
	int rc = cuDevicePrimaryCtxRetain(&second, 1) | cuCtxSetCurrent(second) |
		 cuMemAlloc(&distant, MORE);

	return rc | cuMemsetD8(distant, 6, MORE) | cuCtxSynchronize() |
	       cuCtxSetCurrent(rank.context);
}

static int look_beside(void)
{
	const unsigned char *at = (const void *)(uintptr_t)distant;

	return at[0] + at[MORE - 1];
}

/* Allocate this many MiB, and free them. */
static int huge(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAlloc(&at, (size_t)mib << 20);

	return rc ? rc : cuMemFree(at);
}

/* Allocate n blocks of 8 MiB one after the other, and free them. At each number of blocks another
 * one is allocated and freed 20 times, also when the last slab is full. */
static int edges(int n)
{
	static CUdeviceptr at[64];
	int rc = n > 64, up = 1;

	for (int i = 0; !rc && i >= 0; i += up) {
		for (int turn = 0; turn < 20; turn++)
			rc |= huge(8);
		if (i == n)
			up = -1;
		rc |= up > 0 ? cuMemAlloc(&at[i], 8 << 20) : i > 0 ? cuMemFree(at[i - 1]) : 0;
	}
	return rc;
}

/* Do that, and release a context, in n children one after the other. -2: one did not end within a
 * minute. */
static int children(int n)
{
	int status = 0;

	for (int i = 0; i < n && WIFEXITED(status); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			_exit(huge(4096) | (int)cuDevicePrimaryCtxRelease(0));
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

/* Allocate and never free: a free would wait for the program's kernels. Each MiB begins with its
 * number. */
static int take(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAlloc(&at, (size_t)mib << 20);

	for (int i = 0; !rc && i < mib; i++)
		rc = cuMemsetD32(at + ((CUdeviceptr)i << 20), (unsigned int)i, 1);
	return rc;
}

/* Allocations with holes between them, with different bytes in each page group. */
static int odd(void)
{
	CUdeviceptr at[9];
	int rc = 0;

	for (int i = 0; i < 9; i++) {
		rc |= cuMemAlloc(&at[i], (1 << 20) + (size_t)i * 77777);
		for (int k = 0; k < 16; k++)
			rc |= cuMemsetD8(at[i] + (size_t)k * 65536, (unsigned char)(16 * i + k),
					 65536);
	}
	for (int i = 1; i < 9; i += 3)
		rc |= cuMemFree(at[i]);
	return rc | cuCtxSynchronize();
}

/* Allocate and free this many MiB in the order of a stream. */
static int huge_in_order(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAllocAsync(&at, (size_t)mib << 20, rank.stream);

	return rc ? rc : cuMemFreeAsync(at, rank.stream);
}

static int available(void)
{
	size_t bytes = 0, total;

	return cuMemGetInfo(&bytes, &total) ? -1 : (int)(bytes >> 20);
}

/* A handle of memory on slabs: not supported. */
static int own_handle(void)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, rank.data);
}

/* Stream-ordered memory in two pools, which keep freed memory: 4 MiB of 12 are in use in each. */
static CUmemoryPool in_order[2];
static CUdeviceptr taken[2];

static int pools(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t all = UINT64_MAX;
	CUdeviceptr freed;
	int rc = cuDeviceGetDefaultMemPool(&in_order[0], 0) | cuMemPoolCreate(&in_order[1], &props);

	for (int i = 0; i < 2 && !rc; i++) {
		rc |= cuMemPoolSetAttribute(in_order[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
		rc |= cuMemAllocFromPoolAsync(&taken[i], 4 * SIZE, in_order[i], rank.stream);
		rc |= cuMemAllocFromPoolAsync(&freed, 8 * SIZE, in_order[i], rank.stream);
		rc |= cuMemsetD8Async(taken[i], 7, 4 * SIZE, rank.stream) |
		      cuMemFreeAsync(freed, rank.stream);
	}
	return rc | cuStreamSynchronize(rank.stream);
}

/* The MiB that both pools have reserved; -1: used memory has lost its contents. */
static int reserved(void)
{
	cuuint64_t bytes[2] = {0, 0};
	unsigned char last[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		cuMemPoolGetAttribute(in_order[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes[i]);
		cuMemcpyDtoH(&last[i], taken[i] + 4 * SIZE - 1, 1);
	}
	return last[0] == 7 && last[1] == 7 ? (int)((bytes[0] + bytes[1]) / SIZE) : -1;
}

/* ---- managed and host memory ---------------------------------------------------------------- */

static int allocate_managed(void)
{
	return cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL);
}

static int free_managed(void)
{
	return cuMemFree(managed);
}

/* A module with a managed variable, which the program does not look up. */
static CUmodule with_variable;

static int variable(void)
{
	return cuModuleLoadData(&with_variable, "managed");
}

static int unload_variable(void)
{
	return cuModuleUnload(with_variable);
}

/* Look up a managed variable by name in the module of a library. */
static CUlibrary library;

static int variable_of_library(void)
{
	CUmodule of_library;
	CUdeviceptr at;
	size_t size;

	return cuLibraryLoadData(&library, "managed", NULL, NULL, 0, NULL, NULL, 0) |
	       cuLibraryGetModule(&of_library, library) |
	       cuModuleGetGlobal(&at, &size, of_library, "any");
}

static int unload_library(void)
{
	return cuLibraryUnload(library);
}

/* A thread writes to it all the time, also while the driver is checkpointed: its address must stay
 * mapped. */
static volatile uint64_t *combined;

static void *count(void *arg)
{
	for (;;) {
		++*combined;
		usleep(100);
	}
	return arg;
}

static int write_combined(void)
{
	unsigned int flags = 0;
	pthread_t thread;
	int rc = cuMemHostAlloc((void **)&combined, 8, CU_MEMHOSTALLOC_WRITECOMBINED);

	rc |= cuMemHostGetFlags(&flags, (void *)combined);
	return rc | pthread_create(&thread, NULL, count, NULL) |
	       !(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
}

const struct rank_command rank_memory_commands[] = {
	{"sum", sum},
	{"more", more},
	{"less", free_large},
	{"change", change_large},
	{"beside", beside},
	{"other", look_beside},
	{"huge", .run_number = huge},
	{"edges", .run_number = edges},
	{"children", .run_number = children},
	{"take", .run_number = take},
	{"odd", odd},
	{"async", .run_number = huge_in_order},
	{"free", available},
	{"own handle", own_handle},
	{"pools", pools},
	{"reserved", reserved},
	{"managed", allocate_managed},
	{"unmanaged", free_managed},
	{"variable", variable},
	{"unload", unload_variable},
	{"library", variable_of_library},
	{"unload library", unload_library},
	{"combined", write_combined},
	{NULL},
};
