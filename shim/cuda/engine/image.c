/* SPDX-License-Identifier: Apache-2.0
 * The driver keeps its state itself, by its own checkpoint, and that is in the image, as its
 * library is, wherever that was loaded. */
#include <stddef.h>

#include "shim/cuda/engine/engine.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/managed/mmap_hook.h"
#include "shim/cuda/memory/physical.h"
#include "shim/namespace/namespace.h"

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	const char *why = gck_cuda_driver_unable();

	if (why)
		tell(arg, "the CUDA driver", why,
		     "restart the job from its last checkpoint, on nodes with "
		     "a driver of CUDA 12.8 or later");
	if (gck_cuda_physical_stays())
		tell(arg, "device memory", "no descriptor of it could be kept",
		     "raise the program's limit (ulimit -n)");
}

static int down(int64_t end_ns, struct gck_error *err)
{
	int failed;

	gck_cuda_mmap_hook_prefault(true);
	failed = gck_cuda_driver_down(end_ns, err);
	gck_cuda_mmap_hook_prefault(false);
	if (!failed)
		gck_namespace_carry();
	return failed;
}

static int up(bool restored, struct gck_error *err)
{
	(void)restored;
	gck_namespace_carried();
	return gck_cuda_driver_up(err);
}

const struct gck_cuda_engine gck_cuda_image_engine = {.able = able, .down = down, .up = up};
