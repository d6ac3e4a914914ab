#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Windows on 4 ranks under the stand-in (with each of Open MPI's components for them) and with
# checkpoints. GPUCKPT_LONG=1: also with Open MPI alone, and with restarts. Runs in the build
# folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$dir"' EXIT

reference "windows: Open MPI" plain 4 ./mpi_windows
for osc in rdma pt2pt; do
	passes "windows by osc/$osc: the stand-in" standin 4 --mca osc $osc ./mpi_windows
done
passes "windows over TCP: the stand-in" standin 4 --mca osc pt2pt --mca btl tcp,self ./mpi_windows
passes "windows over checkpoints" cycles GPUCKPT_MPI_TEST_KEEP=1 ./mpi_windows
reloads "windows over restarts" cycles EVERY=3 ./mpi_windows
reloads "shared windows over restarts" cycles ONLY="shared windows" ./mpi_windows
reloads "windows over restarts at any time" cycles GPUCKPT_MPI_TEST_MS=100 ./mpi_windows
passes "windows of several threads: the stand-in" standin 4 ./mpi_windows_threads
passes "windows of several threads over checkpoints" \
	cycles GPUCKPT_MPI_TEST_KEEP=1 GPUCKPT_MPI_TEST_MS=20 ./mpi_windows_threads

abandoned() { # HOW
	rm -rf "${dir:?}"/*
	standin 2 env GPUCKPT_MPI_TEST="$dir" GPUCKPT_MPI_TEST_KEEP=1 ./mpi_windows_abandoned "$1"
}

passes "operations on a rank that is not in the checkpoint" abandoned unknowing
passes "operations on a rank that has left the checkpoint" abandoned gone

tap_done
