/* SPDX-License-Identifier: Apache-2.0
 * bench_stall GIB...: how long the driver's own checkpoint stops a program with GIB GiB on the
 * device, from the lock to the unlock. gpu_device measures the same for the stand-in. */
#include "driver.h"

#include <stdlib.h>

static void of_driver(size_t gib)
{
	struct gpu_self self = {};
	CUdeviceptr data;
	char name[80];

	MUST(cuMemAlloc(&data, gib * GIB));
	MUST(cuMemsetD32(data, 7, gib * GIB / 4));
	CHECK(gpu_self_checkpoint(&self));
	MUST(cuMemFree(data));
	snprintf(name, sizeof name, "stall_driver_%zu_gib", gib);
	gpu_figure(name, self.all_ms, "ms");
}

int main(int argc, char **argv)
{
	struct gpu_self bare = {}, shrunk = {};

	gpu_init();
	CHECK(gpu_self_checkpoint(&bare));
	shrunk.shrink = true;
	CHECK(gpu_self_checkpoint(&shrunk));
	gpu_figure("driver_owned", (double)bare.grown / MIB, "MiB");
	gpu_figure("driver_owned_stack_shrunk", (double)shrunk.grown / MIB, "MiB");
	gpu_figure("driver_checkpoint_empty", bare.all_ms, "ms");
	gpu_figure("driver_checkpoint_empty_stack_shrunk", shrunk.all_ms, "ms");
	for (int i = 1; i < argc; i++)
		of_driver(strtoul(argv[i], NULL, 10));
	return 0;
}
