#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/mpi_comms.sh LIBRARY [MOST]: the CPU time that making and freeing a communicator takes,
# for few and for up to MOST communicators, without and with the stand-in LIBRARY
# (libgpuckpt-mpi.so); prints `name value unit`. Needs mpicc and mpirun, which has the caller's
# environment.
set -e
library=$(readlink -f "${1:?usage: test/bench/mpi_comms.sh LIBRARY [MOST]}")
most=${2:-3200}
here=$(dirname "$(readlink -f "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpicc -O2 -o "$tmp/mpi_comms" "$here/mpi_comms.c"
mpirun --oversubscribe -np 2 "$tmp/mpi_comms" "$tmp/file" "$most" | sed 's/ /_plain /'
mpirun --oversubscribe -np 2 -x LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library" \
	"$tmp/mpi_comms" "$tmp/file" "$most" | sed 's/ /_with /'
