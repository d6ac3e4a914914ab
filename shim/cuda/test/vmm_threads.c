/* SPDX-License-Identifier: Apache-2.0
 * Cases that the model leaves out: memory that threads create and release, exported memory, and
 * memory that is mapped in parts. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/cuda/test/vmm_model.h"

#define UNIT ((size_t)2 << 20)

struct worker {
	pthread_t thread;
	CUcontext context;
	CUdeviceptr base;
	unsigned char fill;
	int rounds;
	bool good;
};

/* Released as soon as it is mapped, as programs do. */
static bool round_trip(const struct worker *w)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUmemAccessDesc access = {.location = prop.location,
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	unsigned char last = 0;

	if (cuMemCreate(&handle, UNIT, &prop, 0) || cuMemMap(w->base, UNIT, 0, handle, 0) ||
	    cuMemRelease(handle) || cuMemSetAccess(w->base, UNIT, &access, 1) ||
	    cuMemsetD8(w->base, w->fill, UNIT) || cuCtxSynchronize())
		return false;
	return cuMemcpyDtoH(&last, w->base + UNIT - 1, 1) == 0 && last == w->fill &&
	       cuMemUnmap(w->base, UNIT) == 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	w->good = cuCtxSetCurrent(w->context) == 0 &&
		  cuMemAddressReserve(&w->base, UNIT, 0, 0, 0) == 0;
	while (w->good && w->rounds-- > 0)
		w->good = round_trip(w);
	w->good = w->good && cuMemAddressFree(w->base, UNIT) == 0;
	return NULL;
}

const char *vmm_threads(int rounds)
{
	const char *wrong = NULL;
	struct worker w[4];

	for (int i = 0; i < 4; i++) {
		w[i] = (struct worker){.fill = (unsigned char)(i + 1), .rounds = rounds};
		cuCtxGetCurrent(&w[i].context);
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			return "no thread";
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(w[i].thread, NULL);
		wrong = w[i].good ? wrong : "each thread's memory has its contents";
	}
	return wrong;
}

static CUmemGenericAllocationHandle extra;

const char *vmm_make(void)
{
	static const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

	return cuMemCreate(&extra, UNIT, &prop, 0) ? "one more memory is created" : NULL;
}

const char *vmm_export(void)
{
	struct stat st;
	int fd = -1;

	if (cuMemExportToShareableHandle(&fd, extra, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ||
	    fstat(fd, &st))
		return "it is exported";
	close(fd);
	return NULL;
}

const char *vmm_drop(void)
{
	if (cuMemRelease(extra))
		return "it is released";
	return cuMemRelease(extra) == CUDA_ERROR_INVALID_VALUE ? NULL
							       : "a released handle is refused";
}

/* ---- in parts, which driver 580 does not support -------------------------------------------- */

#define FIRST 0x11
#define SECOND 0x22

static CUdeviceptr parts; /* the second half, then the first */

const char *vmm_parts(void)
{
	static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
						 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUmemAccessDesc access = {.location = prop.location,
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	if (cuMemAddressReserve(&parts, 2 * UNIT, 0, 0, 0) ||
	    cuMemCreate(&handle, 2 * UNIT, &prop, 0))
		return "memory is created";
	if (cuMemMap(parts, UNIT, UNIT, handle, 0) || cuMemMap(parts + UNIT, UNIT, 0, handle, 0) ||
	    cuMemRelease(handle) || cuMemSetAccess(parts, 2 * UNIT, &access, 1))
		return "its halves are mapped";
	return cuMemsetD8(parts, SECOND, UNIT) || cuMemsetD8(parts + UNIT, FIRST, UNIT) ||
			       cuCtxSynchronize()
		       ? "they are written"
		       : NULL;
}

static bool has(CUdeviceptr at, unsigned char wanted)
{
	unsigned char first = 0, last = 0;

	return cuMemcpyDtoH(&first, at, 1) == 0 && cuMemcpyDtoH(&last, at + UNIT - 1, 1) == 0 &&
	       first == wanted && last == wanted;
}

const char *vmm_parts_end(void)
{
	CUdeviceptr start = 0;
	size_t size = 0;

	if (!has(parts, SECOND) || !has(parts + UNIT, FIRST))
		return "each half is at its address";
	if (cuMemGetAddressRange(&start, &size, parts + UNIT + 1) || start != parts + UNIT ||
	    size != UNIT)
		return "with its range";
	return cuMemUnmap(parts, UNIT) || cuMemUnmap(parts + UNIT, UNIT) ||
			       cuMemAddressFree(parts, 2 * UNIT)
		       ? "they are unmapped"
		       : NULL;
}
