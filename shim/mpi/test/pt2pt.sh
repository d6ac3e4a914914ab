#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Point-to-point on 4 ranks: with Open MPI alone, with the stand-in, and over cycles, at the
# program's calls with messages in flight or at any time. Runs in the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$dir"' EXIT

reference "point-to-point: Open MPI" plain 4 ./mpi_pt2pt
passes "point-to-point: the stand-in" standin 4 ./mpi_pt2pt
passes "point-to-point over checkpoints" cycles GPUCKPT_MPI_TEST_KEEP=1 ./mpi_pt2pt
reloads "point-to-point over restarts" cycles ./mpi_pt2pt
reference "messages of threads: Open MPI" plain 4 ./mpi_pt2pt_threads
passes "messages of threads: the stand-in" standin 4 ./mpi_pt2pt_threads
reloads "messages of threads over restarts" cycles GPUCKPT_MPI_TEST_MS=100 ./mpi_pt2pt_threads 200

tap_done
