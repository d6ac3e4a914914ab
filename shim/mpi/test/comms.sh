#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Communicators and collectives on 4 ranks: with Open MPI as it is, under the stand-in, with a restart
# wherever the program asks for one, and with restarts at any time. Runs in the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

cycles() { # MS COMMAND...: restarts where the program asks (0), or every so many milliseconds
	ms=$1
	shift
	folder=$(mktemp -d -p /dev/shm) || return 1
	[ "$ms" = 0 ] || export GPUCKPT_MPI_TEST_MS="$ms"
	GPUCKPT_MPI_TEST=$folder standin 4 "$@"
	result=$?
	rm -rf "$folder"
	return $result
}

passes "the collective clock against random programs" ./mpi_clock
passes "communicators and collectives: Open MPI" plain 4 ./mpi_comms
passes "communicators and collectives: the stand-in" standin 4 ./mpi_comms
passes "with restarts where it hurts" cycles 0 ./mpi_comms
passes "with restarts at any time" cycles 120 ./mpi_comms

echo "1..$n"
