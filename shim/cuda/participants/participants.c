/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/participants/drain.h"

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	const char *why = gck_cuda_driver_unable();

	if (why)
		tell(arg, "the CUDA driver", why, "restart the job from its last checkpoint, on nodes with "
		     "a driver of CUDA 12.8 or later");
}

static const struct gck_cuda_part driver_part = {.name = "driver", .able = able};

/* Memory goes before the stacks shrink: copies on the device need none, and what is cheap to take
 * back comes last. */
const struct gck_cuda_part *const gck_cuda_parts[] = {
	&driver_part, &gck_cuda_alive_part, &gck_cuda_unknown_part, &gck_cuda_pool_part, &gck_cuda_managed_part,
	&gck_cuda_memory_part, &gck_cuda_limits_part, NULL,
};

void gck_cuda_able(gck_cuda_obstacle_fn *tell, void *arg)
{
	for (size_t i = 0; gck_cuda_parts[i]; i++) {
		if (gck_cuda_parts[i]->able)
			gck_cuda_parts[i]->able(tell, arg);
	}
}
