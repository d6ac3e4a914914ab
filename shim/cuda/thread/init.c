/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/managed/managed.h"
#include "shim/cuda/memory/device_memory.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_supply.h"
#include "shim/cuda/points/launch.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/ordered_memory.h"
#include "shim/cuda/stream/pool.h"
#include "shim/cuda/thread/node_reclaim.h"
#include "shim/cuda/thread/thread.h"

GCK_CUDA_FUNCTION(cuInit, (unsigned int flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	gck_cuda_thread_announce(true);
	rc = gck_cuda_real.cuInit(flags);
	if (rc == CUDA_SUCCESS)
		gck_cuda_thread_start();
	else
		gck_cuda_thread_announce(false);
	GCK_CUDA_LEAVE();
	return rc;
}

/* A context has ended: forget all memory in it that is not newer. */
static void forget(CUcontext gone, uint64_t newest)
{
	gck_cuda_points_forget(gone);
	gck_cuda_ordered_forget(gone, newest);
	gck_cuda_memory_forget(gone, newest);
	gck_cuda_managed_forget(gone, newest);
}

/* Gives the lower folders their tables of upper functions. */
static void assemble(void)
{
	static const struct gck_cuda_reclaim_table reclaim = {
		.yield = gck_cuda_device_copy_yield,
		.bytes = gck_cuda_device_copy_bytes,
		.from_ranks = gck_cuda_node_reclaim,
	};
	static const struct gck_cuda_context_ends ends = {
		.newest = gck_cuda_memory_newest,
		.pause = gck_cuda_device_copy_pause,
		.go_on = gck_cuda_device_copy_go_on,
		.context = forget,
		.stream = gck_cuda_ordered_stream_ends,
	};

	gck_cuda_reclaim_begin(&reclaim);
	gck_cuda_contexts_begin(&ends);
	gck_cuda_points_begin();
	gck_cuda_slabs_reserve_by(gck_cuda_pools_retained);
}

GCK_CUDA_ASSEMBLE(assemble);
