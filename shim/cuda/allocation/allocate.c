/* SPDX-License-Identifier: Apache-2.0
 * cuMemAlloc and cuMemFree on slabs (memory/device_memory.h). */
#include "shim/cuda/allocation/allocate.h"

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/follow.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/stream/ordered_memory.h"

#define PITCH 512

static size_t pitch_of(size_t width)
{
	return (width + PITCH - 1) / PITCH * PITCH;
}

GCK_CUDA_FUNCTION(cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;

	GCK_CUDA_ENTER(0);
	if (address && bytes)
		rc = gck_cuda_memory_take(bytes, address);
	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		GCK_CUDA_TRY(rc, gck_cuda_real.cuMemAlloc_v2(address, bytes));
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuMemAllocPitch_v2, (CUdeviceptr *address, size_t *pitch, size_t width,
				       size_t height, unsigned int element))
{
	CUresult rc = CUDA_ERROR_NOT_SUPPORTED;
	size_t bytes;

	GCK_CUDA_ENTER(0);
	if (address && pitch && width && height &&
	    (element == 4 || element == 8 || element == 16) &&
	    !__builtin_mul_overflow(pitch_of(width), height, &bytes)) {
		rc = gck_cuda_memory_take(bytes, address);
		if (rc == CUDA_SUCCESS)
			*pitch = pitch_of(width);
	}
	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		GCK_CUDA_TRY(rc, gck_cuda_real.cuMemAllocPitch_v2(address, pitch, width, height,
								  element));
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- giving back ---------------------------------------------------------------------------- */

bool gck_cuda_allocation_find(CUdeviceptr address, struct gck_cuda_allocation *a)
{
	return gck_cuda_memory_find(address, a) && gck_cuda_ordered_look(address, a);
}

CUresult gck_cuda_allocation_give_now(const struct gck_cuda_allocation *a)
{
	return a->pool ? gck_cuda_ordered_give(a) : gck_cuda_memory_give(a);
}

bool gck_cuda_allocation_is_ours(CUdeviceptr address, struct gck_cuda_allocation *a, CUresult *rc)
{
	bool found = gck_cuda_allocation_find(address, a);

	if (!found && !gck_cuda_memory_is_ours(address))
		return gck_cuda_managed_is_ours(address, a, rc);
	*rc = found && a->base == address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return true;
}

/* While a capture is under way a context cannot be queried: work on a destroyed stream, a
 * thread's own or the default stream is not seen, so the memory waits until it can be. */
CUresult gck_cuda_allocation_give(const struct gck_cuda_allocation *a, CUcontext context)
{
	bool managed = !gck_cuda_memory_is_ours(a->base);
	CUresult rc = gck_cuda_wait_context(context);

	if (rc == CUDA_ERROR_NOT_READY && !managed && !a->pool) {
		rc = gck_cuda_ordered_give_later(a, context);
		if (rc != CUDA_ERROR_NOT_SUPPORTED)
			return rc;
	}
	if (rc == CUDA_ERROR_NOT_READY || rc == CUDA_ERROR_NOT_SUPPORTED)
		rc = gck_cuda_wait_streams(context);
	if (rc)
		return rc;
	return managed ? gck_cuda_managed_give(a) : gck_cuda_allocation_give_now(a);
}

/* As with the driver's own memory it is freed once the context has finished its work. For
 * stream-ordered memory the program takes care of that. */
GCK_CUDA_FUNCTION(cuMemFree_v2, (CUdeviceptr address))
{
	struct gck_cuda_allocation a;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_follow_all();
	if (!gck_cuda_allocation_is_ours(address, &a, &rc)) {
		rc = gck_cuda_real.cuMemFree_v2(address);
		if (rc == CUDA_SUCCESS)
			gck_cuda_obstacle_remove(GCK_CUDA_MANAGED, address);
	} else if (rc == CUDA_SUCCESS) {
		rc = a.pool ? gck_cuda_ordered_give(&a) : gck_cuda_allocation_give(&a, a.context);
	}
	GCK_CUDA_LEAVE();
	return rc;
}
