/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/follow.h"

#include <stddef.h>

#include "shim/cuda/gate/last_kernel.h"

_Atomic unsigned gck_cuda_pointed;
_Atomic uint64_t gck_cuda_follow_age;

static const struct gck_cuda_follow_table *points;

void gck_cuda_follow_begin(const struct gck_cuda_follow_table *table)
{
	points = table;
}

void gck_cuda_follow_wait(CUstream stream)
{
	points->wait(stream);
}

void gck_cuda_follow_wait_all(void)
{
	points->wait_all();
}

bool gck_cuda_follow_left(CUstream stream, uint64_t age)
{
	return points->is_left(stream, age);
}

void gck_cuda_follow_unload(CUmodule module, CUlibrary library)
{
	gck_cuda_last_kernels_forget();
	points->unload(module, library);
}

bool gck_cuda_follow_running(void)
{
	return gck_cuda_has_pointed() && points->running();
}

void gck_cuda_follow_ask(int64_t end_ns)
{
	if (gck_cuda_has_pointed())
		points->ask(end_ns);
}

int gck_cuda_follow_settle(int64_t end_ns, struct gck_error *err)
{
	return gck_cuda_has_pointed() ? points->settle(end_ns, err) : 0;
}
