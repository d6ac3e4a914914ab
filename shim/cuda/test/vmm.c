/* SPDX-License-Identifier: Apache-2.0
 * cuda_vmm SEED [TIMES]: the program's own virtual memory management against a model, on the driver
 * alone or under the stand-in; TIMES short sequences with pauses, for checkpoints and restarts.
 * Also on a GPU. */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/against.h"
#include "shim/cuda/test/vmm_model.h"
#include "test/support/tap.h"

int main(int argc, char *argv[])
{
	int times = argc > 2 ? atoi(argv[2]) : 1;
	CUcontext context;
	const char *wrong;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 99;
	wrong = vmm_begin(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	ok(!wrong, "it begins: %s", none(wrong));
	say_started();
	for (int i = 0; !wrong && i < times; i++) {
		wrong = vmm_steps(times > 1 ? 20 : 1000);
		usleep(times > 1 ? 10000 : 0);
	}
	ok(!wrong, "random sequences: %s", none(wrong));
	wrong = wrong ? wrong : vmm_threads(20);
	ok(!wrong, "threads beside each other: %s", none(wrong));
	wrong = wrong ? wrong : vmm_end();
	ok(!wrong, "to the end: %s", none(wrong));
	return tap_done();
}
