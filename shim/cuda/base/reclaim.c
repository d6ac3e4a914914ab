/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/reclaim.h"

#include <stddef.h>

static const struct gck_cuda_reclaim_table *reclaim;

void gck_cuda_reclaim_begin(const struct gck_cuda_reclaim_table *table)
{
	reclaim = table;
}

bool gck_cuda_reclaim(CUdevice device, int64_t *late_ns)
{
	return reclaim && reclaim->yield(device, late_ns);
}

uint64_t gck_cuda_reclaim_bytes(CUdevice device)
{
	return reclaim ? reclaim->bytes(device) : 0;
}

bool gck_cuda_reclaim_from_ranks(CUdevice device)
{
	return reclaim && reclaim->from_ranks(device);
}
