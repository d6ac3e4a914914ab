#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Communicators and collectives on 4 ranks under the stand-in, with checkpoints where the program asks for
# them and at any time. GPUCKPT_LONG=1: also with Open MPI alone, without checkpoints, and with restarts.
# Runs in the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

cycles() { # COMMAND...: checkpoints and restarts in place, where the program asks for them
	folder=$(mktemp -d -p /dev/shm) || return 1
	GPUCKPT_MPI_TEST=$folder standin 4 "$@"
	result=$?
	rm -rf "$folder"
	return $result
}

passes "the collective clock against random programs" ./mpi_clock
reference "communicators and collectives: Open MPI" plain 4 ./mpi_comms
long_only "communicators and collectives: the stand-in" standin 4 ./mpi_comms
reloads "with restarts where it hurts" cycles ./mpi_comms
GPUCKPT_MPI_TEST_KEEP=1
export GPUCKPT_MPI_TEST_KEEP
passes "with checkpoints where it hurts" cycles ./mpi_comms
GPUCKPT_MPI_TEST_MS=20
export GPUCKPT_MPI_TEST_MS
passes "with checkpoints at any time" cycles ./mpi_comms

tap_done
