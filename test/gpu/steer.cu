/* SPDX-License-Identifier: Apache-2.0
 * Brings managed memory back at its address: libcuda's calls of mmap and munmap come here. */
#include "driver.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define ALIGNED (32 * MIB)

static struct {
	char *at;
	size_t size;
	bool taken;
} steer;

/* It asks for room to align what it wants, and gives back what is behind that. */
extern "C" void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) noexcept
{
	long result;

	if (steer.at && !at && prot == PROT_NONE && size == steer.size + ALIGNED - 4096) {
		steer.taken = true;
		return steer.at;
	}
	result = syscall(SYS_mmap, at, size, prot, flags, fd, offset);
	return result == -1 ? MAP_FAILED : (void *)result;
}

extern "C" int munmap(void *at, size_t size) noexcept
{
	if (steer.taken && at == steer.at + steer.size)
		return 0;
	return (int)syscall(SYS_munmap, at, size);
}

CUdeviceptr gpu_managed_at(void *at, size_t size)
{
	CUdeviceptr p;

	steer.at = (char *)at;
	steer.size = size;
	MUST(cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
	CHECK(steer.taken && p == (CUdeviceptr)at);
	steer.at = NULL;
	steer.taken = false;
	return p;
}
