#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The real library in its own namespace, with several ranks. Runs in the build folder.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1

ranks() { # NAME OPTIONS OF MPIRUN
	name=$1
	shift
	out=$(mpirun --oversubscribe -np 4 "$@" ./test_mpi_lists 4 2>&1)
	check $? "$name"
	[ -z "$out" ] || show "$out"
}

ranks "everything that 4 ranks own is listed"
ranks "everything that 4 ranks own is listed over TCP" --mca btl self,tcp --mca pml ob1

tap_done
