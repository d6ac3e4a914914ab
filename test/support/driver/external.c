/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: external memory, imported from a descriptor of cuMemCreate. cuMemFree removes
 * its mappings. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNED ((size_t)2 << 20)

struct CUextMemory_st {
	struct fake_memory *memory; /* NULL: none */
};

/* The driver takes the descriptor over. */
CUresult fake_cuImportExternalMemory(CUexternalMemory *memory,
				     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *of)
{
	CUexternalMemory e = calloc(1, sizeof *e);

	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (of->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) {
		fake_lock();
		e->memory = fake_memory_import(of->handle.fd);
		fake_unlock();
		close(of->handle.fd);
	}
	*memory = e;
	return CUDA_SUCCESS;
}

static void *map(const struct fake_memory *m, size_t size)
{
	char *start = mmap(NULL, size + ALIGNED, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head = -(uintptr_t)start % ALIGNED;

	if (start == MAP_FAILED)
		return start;
	if (head)
		munmap(start, head);
	munmap(start + head + size, ALIGNED - head);
	return mmap(start + head, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0);
}

CUresult fake_cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
					      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *of)
{
	struct fake_memory *m = memory->memory;
	void *at;

	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!m || of->offset || of->size != m->size || of->flags)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	at = map(m, of->size);
	if (at != MAP_FAILED) {
		m->uses++;
		*address = (CUdeviceptr)(uintptr_t)at;
		fake_block_new(m, *address, of->size, FAKE_EXTERNAL);
	}
	fake_unlock();
	return at == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult fake_cuDestroyExternalMemory(CUexternalMemory memory)
{
	fake_lock();
	if (memory->memory)
		fake_memory_drop(memory->memory);
	fake_unlock();
	free(memory);
	return CUDA_SUCCESS;
}
