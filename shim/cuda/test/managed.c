/* SPDX-License-Identifier: Apache-2.0
 * cuda_managed SEED [TIMES]: managed memory against a model, on the driver alone or under the
 * stand-in; TIMES short sequences with pauses, for checkpoints and restarts. On a GPU with
 * GPUCKPT_TEST_DRIVER=real. */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/against.h"
#include "shim/cuda/test/kernels.h"
#include "shim/cuda/test/managed_model.h"
#include "test/support/tap.h"

/* kernels.h's, for a real driver. */
static const char add_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 at, .param .u64 value)\n"
	"{\n\t.reg .u64 %d<5>;\n\tld.param.u64 %d1, [at];\n\tld.param.u64 %d2, [value];\n"
	"\tld.global.u64 %d3, [%d1];\n\tadd.u64 %d4, %d3, %d2;\n\tst.global.u64 [%d1], "
	"%d4;\n\tret;\n}\n";

int main(int argc, char *argv[])
{
	int times = argc > 2 ? atoi(argv[2]) : 1;
	CUmodule module = NULL;
	CUcontext context;
	const char *wrong;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuModuleLoadData(&module, add_ptx))
		return 99;
	wrong = managed_begin(module, argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	ok(!wrong, "it begins: %s", none(wrong));
	say_started();
	if (getenv("GPUCKPT_TEST_DRIVER"))
		managed_forgets();
	for (int i = 0; !wrong && i < times; i++) {
		wrong = managed_steps(times > 1 ? 20 : 1000);
		usleep(times > 1 ? 10000 : 0);
	}
	ok(!wrong, "random sequences: %s", none(wrong));
	wrong = managed_end();
	ok(!wrong, "to the end: %s", none(wrong));
	return tap_done();
}
