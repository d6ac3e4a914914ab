#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/mpi_calls.sh LIBRARY [PAIRS]: the time that the stand-in LIBRARY
# (libgpuckpt-mpi.so) adds to MPI's calls, from PAIRS pairs of runs without and with it, in turns;
# prints `name value unit`. Needs mpicc, mpirun and two CPUs; the ranks have real-time priority if
# root calls it, otherwise the CPUs must be idle. mpirun has the caller's environment.
set -e
library=$(readlink -f "${1:?usage: test/bench/mpi_calls.sh LIBRARY [PAIRS]}")
pairs=${2:-20}
here=$(dirname "$(readlink -f "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpicc -O2 -o "$tmp/mpi_calls" "$here/mpi_calls.c"

for ((i = 0; i < pairs; i++)); do
	mpirun -np 2 "$tmp/mpi_calls" >>"$tmp/plain"
	mpirun -np 2 -x LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library" "$tmp/mpi_calls" \
		>>"$tmp/with"
done

# median NAME FILE
median()
{
	awk -v name="$1" '$1 == name { print $2 }' "$2" | sort -g |
		awk '{ v[NR] = $1 }
			END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

for name in send_recv_8B send_recv_1MiB allreduce_8B; do
	plain=$(median $name "$tmp/plain")
	with=$(median $name "$tmp/with")
	printf 'mpi_%s_plain %s ns\nmpi_%s_with %s ns\n' $name "$plain" $name "$with"
	awk -v name=$name -v a="$plain" -v b="$with" 'BEGIN {
		printf "mpi_%s_added %.1f ns\n", name, b - a
		printf "mpi_%s_added_share %.2f %%\n", name, (b - a) * 100 / a }'
done
