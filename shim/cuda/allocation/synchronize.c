/* SPDX-License-Identifier: Apache-2.0
 * After the program waited for the GPU its pools give back what they should not keep, as the
 * driver's do. */
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/ordered_memory.h"

#define WAITS(name, parameters, object, argument) \
	GCK_CUDA_FUNCTION(name, parameters) \
	{ \
		CUresult rc; \
		GCK_CUDA_ENTER(object); \
		rc = gck_cuda_real.name(argument); \
		if (rc == CUDA_SUCCESS) \
			gck_cuda_ordered_waited(); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
WAITS(cuStreamSynchronize, (CUstream stream), stream, stream)
WAITS(cuStreamSynchronize_ptsz, (CUstream stream), stream, stream)
WAITS(cuEventSynchronize, (CUevent event), 0, event)
WAITS(cuCtxSynchronize, (void), 0, )
WAITS(cuCtxSynchronize_v2, (CUcontext context), 0, context)
