#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# MPI-IO and MPI_T on 4 ranks: with Open MPI alone, with the stand-in, and over cycles. Runs in the
# build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
data=$(mktemp -d) || exit 1
trap 'rm -rf "$dir" "$data"' EXIT

reference "files: Open MPI" plain 4 ./mpi_files "$data"
passes "files by OMPIO: the stand-in" standin 4 ./mpi_files "$data"
passes "files over checkpoints" cycles GPUCKPT_MPI_TEST_KEEP=1 ./mpi_files "$data"
reloads "files over restarts" cycles EVERY=2 ./mpi_files "$data"
reloads "files over restarts at any time" cycles GPUCKPT_MPI_TEST_MS=100 ./mpi_files "$data"
reference "tools: Open MPI" plain 4 ./mpi_tools
passes "tools: the stand-in" standin 4 ./mpi_tools
reloads "tools over restarts" cycles ./mpi_tools

tap_done
