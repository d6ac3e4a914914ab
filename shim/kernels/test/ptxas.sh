#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ptxas takes the random kernels, as they are and with points.
ptxas=${CUDA_HOME:-/usr/local/cuda}/bin/ptxas
[[ -x $ptxas ]] || { echo "1..0 # SKIP no ptxas in ${ptxas%/*}"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wrong=0

# takes OPTION SEED
takes()
{
	./kernels_points "$1" "$2" >"$dir/a.ptx" &&
		"$ptxas" -O1 -arch=sm_90 -o "$dir/a.cubin" "$dir/a.ptx" >"$dir/log" 2>&1 && return
	wrong=1
	sed "s/^/# $1 $2: /" "$dir/log"
}

for seed in ${GPUCKPT_SEED:-5 8 158 160}; do
	takes --plain "$seed"
	takes --print "$seed"
done
[[ $wrong -eq 0 ]] || printf 'not '
echo "ok 1 - ptxas takes random kernels with points"
echo "1..1"
exit $wrong
