/* SPDX-License-Identifier: Apache-2.0
 * Half of what the driver saves is the reserve for the stacks of all threads that a GPU can hold.
 * It shrinks during a checkpoint, when nothing runs. The device heap stays, since kernels'
 * allocations live there. */
#include <stdlib.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"

#define SMALL 16 /* bytes a thread; the driver raises it to its minimum */

static struct {
	size_t *stack, n; /* the limits before, of the order's first n contexts */
} limits;

static int set_stack(CUcontext context, size_t *before, size_t size, struct gck_error *err)
{
	CUresult rc = gck_cuda_real.cuCtxPushCurrent_v2(context);

	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	if (before)
		rc = gck_cuda_real.cuCtxGetLimit(before, CU_LIMIT_STACK_SIZE);
	if (rc == CUDA_SUCCESS)
		rc = gck_cuda_real.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size);
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return rc ? gck_cuda_fail(err, "cuCtxSetLimit of the stack", rc) : 0;
}

static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	const struct gck_cuda_contexts *all = &order->contexts;

	limits.stack = calloc(all->n + 1, sizeof *limits.stack);
	if (!limits.stack)
		return gck_fail(err, ENOMEM, "no memory for the stack limits");
	for (; limits.n < all->n; limits.n++) {
		if (set_stack(all->v[limits.n].context, &limits.stack[limits.n], SMALL, err))
			return -1;
	}
	return 0;
}

static int resume(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	int failed = 0;

	(void)restored;
	for (size_t i = 0; i < limits.n; i++) {
		if (set_stack(order->contexts.v[i].context, NULL, limits.stack[i],
			      failed ? NULL : err))
			failed = -1;
	}
	free(limits.stack);
	limits.stack = NULL;
	limits.n = 0;
	return failed;
}

const struct gck_cuda_participant gck_cuda_limits_participant = {
	.name = "stack limits", .image_only = true, .drain = drain, .resume = resume,
};
