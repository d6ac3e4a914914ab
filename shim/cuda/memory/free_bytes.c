/* SPDX-License-Identifier: Apache-2.0
 * A part of the device's memory is left free, since the program and others on the device allocate
 * while a snapshot is kept. What the agent reads is an estimate from when memory last came:
 * other users of the device are unknown. A drain asks again, and uses no more host memory than
 * the agent allows. */
#include "shim/cuda/memory/free_bytes.h"

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/memory/physical.h"
#include "shim/cuda/real.h"

#define LEAST_RESERVE ((uint64_t)512 << 20)
#define RESERVE_PART 50 /* of all memory */
#define LOOK ((int64_t)32 << 20)

uint64_t gck_cuda_free_bytes(void)
{
	size_t available, total;
	uint64_t reserve;

	if (!gck_cuda_physical_recalls() || gck_cuda_real.cuMemGetInfo_v2(&available, &total))
		return 0;
	reserve = total / RESERVE_PART > LEAST_RESERVE ? total / RESERVE_PART : LEAST_RESERVE;
	return available > reserve ? available - reserve : 0;
}

/* Ask the driver only for the current device, and not for each of thousands of small changes. */
static uint64_t free_now(CUdevice device, uint64_t before, int64_t bytes)
{
	CUdevice current;

	if (!gck_cuda_physical_recalls())
		return 0;
	if (bytes < 0)
		return before + (uint64_t)-bytes;
	if ((!before || bytes >= LOOK) && !gck_cuda_real.cuCtxGetDevice(&current) &&
	    current == device)
		return gck_cuda_free_bytes() + gck_cuda_reclaim_bytes(device);
	return before > (uint64_t)bytes ? before - (uint64_t)bytes : 0;
}

void gck_cuda_free_bytes_update(CUdevice device)
{
	if (device < GCK_CUDA_DEVICES_MAX)
		gck_cuda_state.memory[device].free_bytes = gck_cuda_free_bytes();
}

void gck_cuda_free_bytes_carried(int64_t bytes)
{
	gck_cuda_state.device_bytes += (uint64_t)bytes;
}

void gck_cuda_free_bytes_changed(CUdevice device, int64_t bytes)
{
	struct gck_cuda_memory *m = device < GCK_CUDA_DEVICES_MAX ? &gck_cuda_state.memory[device]
								  : NULL;

	gck_cuda_free_bytes_carried(bytes);
	if (!m)
		return;
	m->bytes += (uint64_t)bytes;
	m->free_bytes = free_now(device, m->free_bytes, bytes);
}
