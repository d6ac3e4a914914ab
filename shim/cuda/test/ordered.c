/* SPDX-License-Identifier: Apache-2.0
 * cuda_ordered SEED [STEPS]: stream-ordered memory against a model of its order, on the driver
 * alone or under the stand-in. */
#include <stdlib.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/test/against.h"
#include "shim/cuda/test/ordered_model.h"
#include "test/support/tap.h"

int main(int argc, char *argv[])
{
	CUmodule module = NULL;
	const char *wrong;
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuModuleLoadData(&module, ""))
		return 99;
	wrong = ordered_begin(module, argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	if (!wrong)
		wrong = ordered_steps(argc > 2 ? atoi(argv[2]) : 3000);
	if (!wrong)
		wrong = ordered_threads(module);
	if (!wrong)
		wrong = ordered_end();
	ok(!wrong, "random sequences: %s", none(wrong));
	return tap_done();
}
