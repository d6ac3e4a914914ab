#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Communicators and collectives on 4 ranks under the stand-in, with checkpoints at the program's
# calls and at any time. GPUCKPT_LONG=1: also with Open MPI alone, without checkpoints, and with
# restarts. Runs in the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

cycles() { # COMMAND...: with checkpoints and restarts in place at the program's calls
	folder=$(mktemp -d -p /dev/shm) || return 1
	GPUCKPT_MPI_TEST=$folder standin 4 "$@"
	result=$?
	rm -rf "$folder"
	return $result
}

passes "the collective clock with random programs" ./mpi_clock
reference "communicators and collectives: Open MPI" plain 4 ./mpi_comms
long_only "communicators and collectives: the stand-in" standin 4 ./mpi_comms
reloads "communicators and collectives over restarts" cycles ./mpi_comms
GPUCKPT_MPI_TEST_KEEP=1
export GPUCKPT_MPI_TEST_KEEP
passes "communicators and collectives over checkpoints" cycles ./mpi_comms
GPUCKPT_MPI_TEST_MS=20
export GPUCKPT_MPI_TEST_MS
passes "communicators and collectives over checkpoints at any time" cycles ./mpi_comms

tap_done
