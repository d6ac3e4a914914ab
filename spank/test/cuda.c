/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/standins.h"
#include "test/support/tap.h"

#define HERE "/proc/self/exe"
#define NOWHERE "/nonexistent"

int main(void)
{
	struct gck_error err = {0};

	is_int(gck_cuda_wanted(GCK_GPU_AUTO, HERE, HERE, &err), 1, "auto: with a driver");
	is_int(gck_cuda_wanted(GCK_GPU_AUTO, HERE, NOWHERE, &err), 0, "auto: not without a driver");
	is_int(gck_cuda_wanted(GCK_GPU_AUTO, NOWHERE, HERE, &err), 0,
	       "nor without the stand-in");
	is_int(gck_cuda_wanted(GCK_GPU_NVIDIA, HERE, NOWHERE, &err), 1, "nvidia: always");
	is_int(gck_cuda_wanted(GCK_GPU_NVIDIA, NOWHERE, HERE, &err), -1,
	       "but the stand-in must exist");
	ok(all_of(strstr(err.text, NOWHERE), strstr(err.text, "CudaPath")),
	   "the error names it: %s",
	   err.text);
	is_int(gck_cuda_wanted(GCK_GPU_NONE, HERE, HERE, &err), 0, "none: never");
	return tap_done();
}
