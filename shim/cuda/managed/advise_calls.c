/* SPDX-License-Identifier: Apache-2.0
 * CUDA's calls about the location of managed memory. */
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/managed/advice.h"
#include "shim/cuda/managed/managed.h"

/* ---- what the program advises --------------------------------------------------------------- */

static CUmemLocation location_of(CUdevice device)
{
	return (CUmemLocation){.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
							       : CU_MEM_LOCATION_TYPE_DEVICE,
			       .id = device == CU_DEVICE_CPU ? 0 : device};
}

GCK_CUDA_FUNCTION(cuMemAdvise, (CUdeviceptr address, size_t bytes, CUmem_advise advice,
				CUdevice device))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemAdvise(address, bytes, advice, device);
	if (rc == CUDA_SUCCESS)
		gck_cuda_advice_note(
			(struct gck_cuda_advice){address, bytes, (int)advice, location_of(device)});
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemAdvise_v2, (CUdeviceptr address, size_t bytes, CUmem_advise advice,
				   CUmemLocation location))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemAdvise_v2(address, bytes, advice, location);
	if (rc == CUDA_SUCCESS)
		gck_cuda_advice_note(
			(struct gck_cuda_advice){address, bytes, (int)advice, location});
	GCK_CUDA_LEAVE();
	return rc;
}

#define SENDS(name) \
	GCK_CUDA_FUNCTION(name, \
			  (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = gck_cuda_real.name(address, bytes, device, stream); \
		if (rc == CUDA_SUCCESS) \
			gck_cuda_advice_note((struct gck_cuda_advice){ \
				address, bytes, GCK_CUDA_PREFETCHED, location_of(device)}); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
SENDS(cuMemPrefetchAsync)
SENDS(cuMemPrefetchAsync_ptsz)

#define SENDS_TO(name) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr address, size_t bytes, CUmemLocation location, \
				 unsigned int flags, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		rc = gck_cuda_real.name(address, bytes, location, flags, stream); \
		if (rc == CUDA_SUCCESS) \
			gck_cuda_advice_note((struct gck_cuda_advice){ \
				address, bytes, GCK_CUDA_PREFETCHED, location}); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
SENDS_TO(cuMemPrefetchAsync_v2)
SENDS_TO(cuMemPrefetchAsync_v2_ptsz)

/* A location applies from its first index on. */
static void note_batch(const CUdeviceptr *addresses, const size_t *bytes, size_t n,
		       const CUmemLocation *locations, const size_t *firsts, size_t nlocations)
{
	for (size_t i = 0, k = 0; i < n; i++) {
		if (k + 1 < nlocations && firsts[k + 1] == i)
			k++;
		gck_cuda_advice_note((struct gck_cuda_advice){addresses[i], bytes[i],
							      GCK_CUDA_PREFETCHED, locations[k]});
	}
}

#define SENDS_BATCH(name) \
	GCK_CUDA_FUNCTION(name, (CUdeviceptr *addresses, size_t *bytes, size_t n, \
				 CUmemLocation *locations, size_t *firsts, size_t nlocations, \
				 unsigned long long flags, CUstream stream)) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		gck_cuda_follow_all(); /* it may discard what a kernel still reads */ \
		rc = gck_cuda_real.name(addresses, bytes, n, locations, firsts, nlocations, flags, \
					stream); \
		if (rc == CUDA_SUCCESS) \
			note_batch(addresses, bytes, n, locations, firsts, nlocations); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
SENDS_BATCH(cuMemPrefetchBatchAsync)
SENDS_BATCH(cuMemPrefetchBatchAsync_ptsz)
SENDS_BATCH(cuMemDiscardAndPrefetchBatchAsync)
SENDS_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)

/* ---- what the program asks ------------------------------------------------------------------ */

/* Addresses are reused, and the driver remembers earlier prefetches of them. */
static void correct(void *data, size_t capacity, CUmem_range_attribute which, uint64_t base,
		    uint64_t size)
{
	struct gck_cuda_allocation a;

	if (capacity < sizeof(int) || !gck_cuda_managed_find(base, &a) ||
	    gck_cuda_advice_was_prefetched(base, size))
		return;
	if (which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
		*(int *)data = CU_DEVICE_INVALID;
	if (which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
		*(int *)data = CU_MEM_LOCATION_TYPE_INVALID;
}

GCK_CUDA_FUNCTION(cuMemRangeGetAttribute, (void *data, size_t capacity, CUmem_range_attribute which,
					   CUdeviceptr address, size_t bytes))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemRangeGetAttribute(data, capacity, which, address, bytes);
	if (rc == CUDA_SUCCESS)
		correct(data, capacity, which, address, bytes);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemRangeGetAttributes,
		  (void **data, size_t *sizes, CUmem_range_attribute *which, size_t n,
		   CUdeviceptr address, size_t bytes))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuMemRangeGetAttributes(data, sizes, which, n, address, bytes);
	for (size_t i = 0; rc == CUDA_SUCCESS && i < n; i++)
		correct(data[i], sizes[i], which[i], address, bytes);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- attachment ----------------------------------------------------------------------------- */

/* Where CPU and GPU may use the memory at once the driver does not enforce attachments, and it
 * does not know parts of an arena. */
#define ATTACHES(name) \
	GCK_CUDA_FUNCTION(name, (CUstream stream, CUdeviceptr address, size_t bytes, \
				 unsigned int flags)) \
	{ \
		struct gck_cuda_allocation a; \
		CUresult rc; \
		GCK_CUDA_ENTER(stream); \
		if (!gck_cuda_managed_is_ours(address, &a, &rc)) \
			rc = gck_cuda_real.name(stream, address, bytes, flags); \
		else if (rc == CUDA_SUCCESS) \
			rc = is_attachment(&a, bytes, flags) ? CUDA_SUCCESS \
							     : CUDA_ERROR_INVALID_VALUE; \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}

static bool is_attachment(const struct gck_cuda_allocation *a, size_t bytes, unsigned int flags)
{
	return (bytes == 0 || bytes == a->size) &&
	       (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
		flags == CU_MEM_ATTACH_SINGLE);
}

ATTACHES(cuStreamAttachMemAsync)
ATTACHES(cuStreamAttachMemAsync_ptsz)
