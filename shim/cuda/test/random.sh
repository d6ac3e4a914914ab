#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random programs of the driver's functions (test/gpu/random) on the fake driver: plainly, and under
# the stand-in with the driver loaded anew on their way.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

"${srcdir:-.}/test/gpu/random/seeds" ./gpu_engine.so ./gpu_random 51 ${GPUCKPT_LONG:+4}70 2 200
exit $?
