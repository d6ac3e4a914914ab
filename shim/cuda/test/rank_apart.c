/* SPDX-License-Identifier: Apache-2.0
 * The streams' last kernels: those of streams whose handles have the same hash share an entry. */
#include "shim/cuda/gate/last_kernel.h"
#include "shim/cuda/test/rank.h"

int rank_take_stream_apart(void)
{
	int rc = 0;

	while (!rc && gck_cuda_last_kernel_at(rank.stream) ==
			      gck_cuda_last_kernel_at(CU_STREAM_LEGACY))
		rc = cuStreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING);
	return rc;
}
