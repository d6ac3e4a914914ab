/* SPDX-License-Identifier: Apache-2.0
 * Allocates managed memory at a given address: libcuda's calls of mmap and munmap come here. */
#include "driver.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define ALIGNED (32 * MIB)

static struct {
	char *at;
	size_t size;
	bool taken;
} hook;

/* libcuda reserves addresses to align in, and unmaps those that it does not need. */
extern "C" void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) noexcept
{
	long result;

	if (hook.at && !at && prot == PROT_NONE && size == hook.size + ALIGNED - 4096) {
		hook.taken = true;
		return hook.at;
	}
	result = syscall(SYS_mmap, at, size, prot, flags, fd, offset);
	return result == -1 ? MAP_FAILED : (void *)result;
}

extern "C" int munmap(void *at, size_t size) noexcept
{
	if (hook.taken && at == hook.at + hook.size)
		return 0;
	return (int)syscall(SYS_munmap, at, size);
}

CUdeviceptr gpu_managed_at(void *at, size_t size)
{
	CUdeviceptr p;

	hook.at = (char *)at;
	hook.size = size;
	MUST(cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
	CHECK(hook.taken && p == (CUdeviceptr)at);
	hook.at = NULL;
	hook.taken = false;
	return p;
}
