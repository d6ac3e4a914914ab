#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The core of the stand-in: programs with and without it. Runs in the build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"

passes "invalid handles: Open MPI" ./mpi_handles
passes "invalid handles: the stand-in" alone ./mpi_handles
passes "before MPI_Init and after MPI_Finalize: Open MPI" ./mpi_lifetime
passes "before MPI_Init and after MPI_Finalize: the stand-in" alone ./mpi_lifetime
says "a call before MPI_Init: Open MPI" "before MPI_INIT" ./mpi_lifetime early
says "a call before MPI_Init: the stand-in" "before MPI_INIT" alone ./mpi_lifetime early
passes "functions that MPI 3 deprecated or removed: Open MPI" ./mpi_deprecated
passes "functions that MPI 3 deprecated or removed: the stand-in" alone ./mpi_deprecated
for level in 0 1 2 3; do
	reference "threads of level $level: Open MPI" ./mpi_env level $level
	passes "threads of level $level: the stand-in" alone ./mpi_env level $level
	passes "MPI_Init at level $level: the stand-in" \
		alone env OMPI_MPI_THREAD_LEVEL=$level ./mpi_env level $level
done
passes "MPI_Wtime after the clock has gone back" alone ./mpi_env clock
for with in plain standin; do
	$with 2 ./mpi_env abort >/dev/null 2>&1
	[ $? -eq 7 ]
	check $? "MPI_Abort ends the job with its code: $with"
done

tmp=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/words"
mkdir "$tmp/alone"
passes "restarts before, between and after MPI_Init and MPI_Finalize" \
	env GPUCKPT_MPI_TEST="$tmp/alone" LD_PRELOAD="$library" timeout 300 ./mpi_lifetime
passes "a checkpoint while a rank is in MPI_Finalize" standin 2 env GPUCKPT_MPI_TEST="$tmp/words" \
	GPUCKPT_MPI_TEST_MS=200 GPUCKPT_MPI_TEST_KEEP=1 ./mpi_lifetime late
for call in init tool; do
	passes "a quiesce while a call does not end: $call" alone ./mpi_thread_agent $call
done
if mpicxx -w -o "$tmp/cxx" "${srcdir:-.}/shim/mpi/test/cxx_program.cc" 2>/dev/null; then
	passes "a C++ program: Open MPI" "$tmp/cxx"
	passes "a C++ program: the stand-in" alone "$tmp/cxx"
fi

GPUCKPT_MPI_LIBRARY=/nonexistent
export GPUCKPT_MPI_LIBRARY
says "a missing library is reported with its path" \
	'GPUCKPT_MPI_LIBRARY names /nonexistent: No such file' alone ./mpi_lifetime early
GPUCKPT_MPI_LIBRARY=$(ldconfig -p | sed -n 's/^.*libz\.so\.1 .*=> //p' | head -n 1)
says "a library that is not Open MPI is reported with its path" \
	"$GPUCKPT_MPI_LIBRARY.*it is not Open MPI 4.1" alone ./mpi_lifetime early

tap_done
