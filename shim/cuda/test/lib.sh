# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For the tests that run CUDA programs on the fake driver, sourced in the build folder. A program
# prints TAP of its own; each run of one is one test here, its output shown if it failed.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
library=$PWD/libgpuckpt-cuda.so
driver=$PWD/libcuda-fake.so
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
ln -s "$driver" "$tmp/libcuda.so.1"
export LD_LIBRARY_PATH="$tmp"

plain() { # PROGRAM...: without the stand-in
	timeout 300 "$@"
}

standin() { # PROGRAM...: with it, as in a step
	GPUCKPT_CUDA=${GPUCKPT_CUDA-auto} LD_PRELOAD=$library timeout 300 "$@"
}
