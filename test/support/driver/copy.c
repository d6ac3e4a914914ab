/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: copies and fills on a stream, and queries about an address. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As if other processes kept the device busy. */
static void wait_for_device(void)
{
	const char *busy = getenv("FAKE_CUDA_BUSY");

	while (busy && access(busy, F_OK) == 0)
		usleep(1000);
}

static void run_copy(struct fake_op *op)
{
	const void *from = op->block ? op->block : (void *)(uintptr_t)op->args[1];

	wait_for_device();
	memmove((void *)(uintptr_t)op->args[0], from, op->args[2]);
}

/* Only devices with access can use memory of cuMemCreate; all devices can use other memory. */
bool fake_may_use(CUcontext context, uint64_t address)
{
	const struct fake_block *b = fake_find(address);

	return !b || (b->kind != FAKE_VMM && b->kind != FAKE_IMPORTED) ||
	       b->readable >> context->device & 1;
}

static bool may(const struct CUstream_st *s, uint64_t address)
{
	return !s || fake_may_use(s->context, address);
}

/* A copy from memory that is not pinned is made at once. */
static CUresult copy(uint64_t to, uint64_t from, size_t size, CUstream stream)
{
	struct fake_op op = {.run = run_copy, .node = 1 + CU_GRAPH_NODE_TYPE_MEMCPY,
			     .args = {to, from, size}};
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct CUstream_st *s;

	fake_lock();
	s = fake_stream(stream);
	if (!fake_find(from)) {
		op.block = (void *)(uintptr_t)from;
		op.block_size = size;
	}
	if (may(s, to) && may(s, from))
		rc = fake_give(s, &op);
	fake_unlock();
	return rc;
}

static CUresult copy_and_wait(uint64_t to, uint64_t from, size_t size)
{
	CUresult rc = copy(to, from, size, NULL);

	return rc ? rc : fake_cuStreamSynchronize(NULL);
}

static CUresult copy_to_host(uint64_t to, uint64_t from, size_t size, CUstream stream)
{
	CUresult rc = copy(to, from, size, stream);
	bool pinned;

	fake_lock();
	pinned = fake_find(to) != NULL;
	fake_unlock();
	return rc || pinned ? rc : fake_cuStreamSynchronize(stream);
}

CUresult fake_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_and_wait(to, from, size);
}

CUresult fake_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return copy_and_wait(to, (uintptr_t)from, size);
}

CUresult fake_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return copy_and_wait((uintptr_t)to, from, size);
}

CUresult fake_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy_and_wait(to, from, size);
}

CUresult fake_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy(to, from, size, stream);
}

CUresult fake_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return copy(to, (uintptr_t)from, size, stream);
}

CUresult fake_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy_to_host((uintptr_t)to, from, size, stream);
}

CUresult fake_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy(to, from, size, stream);
}

/* ---- fills ---------------------------------------------------------------------------------- */

static void run_fill(struct fake_op *op)
{
	char *to = (void *)(uintptr_t)op->args[0];

	for (uint64_t i = 0; i < op->args[2]; i++)
		memcpy(to + i * op->args[3], &op->args[1], op->args[3]);
}

static CUresult fill(CUdeviceptr to, uint64_t value, size_t n, size_t each, CUstream stream)
{
	struct fake_op op = {.run = run_fill, .node = 1 + CU_GRAPH_NODE_TYPE_MEMSET,
			     .args = {to, value, n, each}};
	struct CUstream_st *s;
	CUresult rc;

	fake_lock();
	s = fake_stream(stream);
	rc = may(s, to) ? fake_give(s, &op) : CUDA_ERROR_INVALID_VALUE;
	fake_unlock();
	return rc;
}

CUresult fake_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
	return fill(to, value, n, 1, NULL);
}

CUresult fake_cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n)
{
	return fill(to, value, n, 4, NULL);
}

CUresult fake_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return fill(to, value, n, 1, stream);
}

CUresult fake_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	return fill(to, value, n, 4, stream);
}

/* ---- attributes ----------------------------------------------------------------------------- */

static CUresult attribute(void *data, CUpointer_attribute which, const struct fake_block *b)
{
	bool host = b->kind == FAKE_HOST || b->kind == FAKE_REGISTERED;

	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data =
			b->kind == FAKE_VMM || b->kind == FAKE_IMPORTED ? NULL : b->context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)data = b->kind == FAKE_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = b->device;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = b->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = b->size;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = b->pool;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = b->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = b->memory ? b->memory->prop.requestedHandleTypes : 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult fake_cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr address)
{
	const struct fake_block *b;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	CUdevice device;

	fake_lock();
	b = fake_find(address);
	if (b && (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
		  which == CU_POINTER_ATTRIBUTE_HOST_POINTER)) {
		*(CUdeviceptr *)data = address;
		rc = CUDA_SUCCESS;
	} else if (!b && which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
		   fake_is_variable(address, &device)) {
		*(CUmemorytype *)data = CU_MEMORYTYPE_DEVICE;
		rc = CUDA_SUCCESS;
	} else if (!b && which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
		   fake_is_variable(address, &device)) {
		*(int *)data = device;
		rc = CUDA_SUCCESS;
	} else if (b) {
		rc = attribute(data, which, b);
	}
	fake_unlock();
	return rc;
}

CUresult fake_cuPointerGetAttributes(unsigned int n, CUpointer_attribute *which, void **data,
				     CUdeviceptr address)
{
	for (unsigned int i = 0; i < n; i++)
		fake_cuPointerGetAttribute(data[i], which[i], address);
	return CUDA_SUCCESS;
}
