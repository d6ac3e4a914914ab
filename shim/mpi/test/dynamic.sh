#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that are spawned, connected, joined: with Open MPI as it is, under the stand-in, and what a
# checkpoint says of them. Runs in the build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$dir"' EXIT
# Open MPI talks by TCP to what is of another job, be it on the same node.
export OMPI_MCA_btl_tcp_if_include=lo

cycles() { # [NAME=VALUE...] PROGRAM...: an empty folder for the ranks' words; all that is said is kept
	rm -rf "$dir/words"
	mkdir "$dir/words"
	standin 2 env GPUCKPT_MPI_TEST="$dir/words" "$@" >"$dir/said" 2>&1
	result=$?
	cat "$dir/said"
	return $result
}

said() { # WORDS: in the last run with cycles
	grep -q "$1" "$dir/said"
	check $? "and it says: $1"
}

passes "spawned, connected, joined: Open MPI" plain 2 ./mpi_dynamic
passes "spawned, connected, joined: the stand-in" standin 2 ./mpi_dynamic
passes "a checkpoint is refused while they are there" cycles GPUCKPT_MPI_TEST_KEEP=1 ./mpi_dynamic
said "a communicator of 2 and 2 ranks: it has processes of another world"
said "it was freed: free its persistent requests as well before the checkpoint"
said "an MPI port: its name (MPI_Open_port) refers to this process"
for family in spawn "connect and accept" join; do
	reloads "over restarts: $family" cycles ONLY="$family" ./mpi_dynamic
done

tap_done
