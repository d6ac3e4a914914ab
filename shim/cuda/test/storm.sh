#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checkpoints and restarts of threads that allocate and launch without a pause, and of a kernel that
# waits for the CPU. By default checkpoints come about every 300 ms and the rank dies twice.
# GPUCKPT_LONG=1: one a second, twenty deaths.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

export GPUCKPT_TEST_PRELOAD="$PWD/.libs/libgpuckpt-preload.so:$library"
export GPUCKPT_CUDA="${GPUCKPT_CUDA-auto}"
if [ -n "${GPUCKPT_LONG-}" ]; then
	./gpu_storm 20 1 ./cuda_threads 60000 8 4000
else
	GPUCKPT_STORM_MS=300 ./gpu_storm 2 1 ./cuda_threads 4000 4 1800
fi
exit $?
