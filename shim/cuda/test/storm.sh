#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Threads that allocate and launch without a pause, and a kernel that waits for the CPU, while checkpoints come.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

export GPUCKPT_TEST_PRELOAD="$PWD/.libs/libgpuckpt-preload.so:$library"
if [ -n "${GPUCKPT_LONG-}" ]; then
	./gpu_storm 20 1 ./cuda_threads 60000 8 4000
else
	./gpu_storm 2 1 ./cuda_threads 8000 4 4000
fi
exit $?
