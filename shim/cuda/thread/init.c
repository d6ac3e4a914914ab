/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/managed/mmap_hook.h"
#include "shim/cuda/memory/slab_supply.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/stream/pool.h"
#include "shim/cuda/thread/node_reclaim.h"
#include "shim/cuda/thread/thread.h"

GCK_CUDA_FUNCTION(cuInit, (unsigned int flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuInit(flags);
	if (rc == CUDA_SUCCESS)
		gck_cuda_thread_start();
	GCK_CUDA_LEAVE();
	return rc;
}

/* Lower layers call these upper ones by the tables that they get here. The loader runs this before
 * the program's first call. */
__attribute__((constructor))
static void assemble(void)
{
	static const struct gck_cuda_reclaim reclaim = {
		.yield = gck_cuda_standing_yield, .bytes = gck_cuda_standing_bytes, .from_ranks = gck_cuda_need,
	};

	gck_cuda_load_then(gck_cuda_steer_begin);
	gck_cuda_reclaim_begin(&reclaim);
	gck_cuda_supply_reserve_by(gck_cuda_pools_kept);
}
