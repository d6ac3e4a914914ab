#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that are spawned, connected or joined: with Open MPI alone, under the stand-in, and the
# refusal of a checkpoint with them. Runs in the build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$dir"' EXIT
# Open MPI uses TCP to processes of another job, even on the same node.
export OMPI_MCA_btl_tcp_if_include=lo

cycles() { # [NAME=VALUE...] PROGRAM...: an empty folder for the ranks' words; output to $dir/output
	rm -rf "$dir/words"
	mkdir "$dir/words"
	standin 2 env GPUCKPT_MPI_TEST="$dir/words" "$@" >"$dir/output" 2>&1
	result=$?
	cat "$dir/output"
	return $result
}

reported() { # TEXT: in the output of the last run with cycles
	grep -q "$1" "$dir/output"
	check $? "the refusal gives the reason: $1"
}

passes "spawn, connect, join: Open MPI" plain 2 ./mpi_dynamic
passes "spawn, connect, join: the stand-in" standin 2 ./mpi_dynamic
passes "a checkpoint is refused while such processes are connected" \
	cycles GPUCKPT_MPI_TEST_KEEP=1 ./mpi_dynamic
reported "a communicator of 2 and 2 ranks: it has processes of another world"
reported "it was freed: free its persistent requests as well before the checkpoint"
reported "an MPI port: its name (MPI_Open_port) refers to this process"
for family in spawn "connect and accept" join; do
	reloads "$family over restarts" cycles ONLY="$family" ./mpi_dynamic
done

tap_done
