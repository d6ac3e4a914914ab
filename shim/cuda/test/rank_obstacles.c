/* SPDX-License-Identifier: Apache-2.0
 * Commands that make and drop objects which prevent a checkpoint. */
#include <cuda.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/program_ptx.h"
#include "shim/cuda/test/rank.h"
#include "test/support/driver/fake.h"

static CUdeviceptr theirs;

/* Open memory of another process: a descriptor of the parent. */
static int open_memory(int fd)
{
	struct fake_ipc ipc = {.pid = getppid(), .fd = fd, .size = SIZE};
	CUipcMemHandle handle = {""};

	memcpy(handle.reserved, &ipc, sizeof ipc);
	return cuIpcOpenMemHandle(&theirs, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static int close_memory(void)
{
	return cuIpcCloseMemHandle(theirs);
}

static int open_event(void)
{
	CUipcEventHandle handle = {""};
	CUevent event;

	return cuIpcOpenEventHandle(&event, handle);
}

static CUmemoryPool imported_pool;
static CUexternalMemory external_memory;
static CUexternalSemaphore external_semaphore;
static CUdeviceptr for_host;

static int import_pool(void)
{
	return cuMemPoolImportFromShareableHandle(&imported_pool, NULL,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static int destroy_pool(void)
{
	return cuMemPoolDestroy(imported_pool);
}

static int import_memory(void)
{
	return cuImportExternalMemory(&external_memory,
				      &(CUDA_EXTERNAL_MEMORY_HANDLE_DESC){.size = SIZE});
}

static int destroy_memory(void)
{
	return cuDestroyExternalMemory(external_memory);
}

static int import_semaphore(void)
{
	return cuImportExternalSemaphore(&external_semaphore,
					 &(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){.flags = 0});
}

static int destroy_semaphore(void)
{
	return cuDestroyExternalSemaphore(external_semaphore);
}

static int multicast(void)
{
	CUmemGenericAllocationHandle object;

	return cuMulticastCreate(&object,
				 &(CUmulticastObjectProp){.numDevices = 1, .size = 2 * SIZE});
}

static int allow_host(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	return cuMemAddressReserve(&for_host, 2 * SIZE, 0, 0, 0) |
	       cuMemCreate(&handle, 2 * SIZE, &prop, 0) |
	       cuMemMap(for_host, 2 * SIZE, 0, handle, 0) | cuMemRelease(handle) |
	       cuMemSetAccess(for_host, 2 * SIZE, &access, 1);
}

static int unmap_for_host(void)
{
	return cuMemUnmap(for_host, 2 * SIZE);
}

static int host_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
	CUmemGenericAllocationHandle handle;

	return cuMemCreate(&handle, 2 << 20, &prop, 0);
}

static int load_ptx(void)
{
	CUmodule module;

	return cuModuleLoadData(&module, GCK_TEST_PTX);
}

const struct rank_command rank_obstacle_commands[] = {
	{"ptx", load_ptx},
	{"ipc", .run_number = open_memory},
	{"ipc close", close_memory},
	{"event", open_event},
	{"import pool", import_pool},
	{"drop pool", destroy_pool},
	{"import memory", import_memory},
	{"drop memory", destroy_memory},
	{"import semaphore", import_semaphore},
	{"drop semaphore", destroy_semaphore},
	{"multicast", multicast},
	{"allow host", allow_host},
	{"unmap for host", unmap_for_host},
	{"host", host_memory},
	{NULL},
};
