/* SPDX-License-Identifier: Apache-2.0
 * The driver keeps its state itself, by its own checkpoint, and that is in the image. */
#include <stddef.h>

#include "shim/cuda/engine/engine.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/managed/mmap_hook.h"
#include "shim/cuda/memory/device_instance.h"

static void loaded(void)
{
	gck_cuda_mmap_hook_begin();
	gck_cuda_instance_begin();
}

static const struct gck_cuda_loader loader = {.loaded = loaded};

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	const char *why = gck_cuda_driver_unable();

	if (why)
		tell(arg, "the CUDA driver", why,
		     "restart the job from its last checkpoint, on nodes with "
		     "a driver of CUDA 12.8 or later");
}

static int down(int64_t end_ns, struct gck_error *err)
{
	int failed;

	gck_cuda_mmap_hook_prefault(true);
	failed = gck_cuda_driver_down(end_ns, err);
	gck_cuda_mmap_hook_prefault(false);
	return failed;
}

static int up(bool restored, struct gck_error *err)
{
	(void)restored;
	return gck_cuda_driver_up(err);
}

const struct gck_cuda_engine gck_cuda_image_engine = {
	.name = "image", .loader = &loader, .able = able, .down = down, .up = up,
};
