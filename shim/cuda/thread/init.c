/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/dispatch/jump.h"
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

void gck_cuda_raw_load(void)
{
	gck_cuda_load();
}
