#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/cuda_calls.sh LIBRARY [CUDA]: the time that the stand-in LIBRARY (libgpuckpt-cuda.so)
# adds to a CUDA call, measured on a driver whose functions do nothing; prints `name value unit`.
# CUDA is the folder of the toolkit's headers (/usr/local/cuda/include).
set -e
library=$(readlink -f "${1:?usage: test/bench/cuda_calls.sh LIBRARY [CUDA]}")
cuda=${2:-/usr/local/cuda/include}
here=$(dirname "$(readlink -f "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
gcc -O2 -shared -fPIC -Wl,-soname,libcuda.so.1 -isystem "$cuda" -o "$tmp/libcuda.so.1" \
	"$here/cuda_nothing.c"
gcc -O2 -isystem "$cuda" -o "$tmp/cuda_calls" "$here/cuda_calls.c" -lpthread
GPUCKPT_CUDA_LIBRARY=$tmp/libcuda.so.1 LD_PRELOAD=$library "$tmp/cuda_calls" "$tmp/libcuda.so.1"
