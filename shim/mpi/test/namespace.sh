#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The real library in its own namespace, with several ranks; the exports of the root object. Runs in
# the build folder.
srcdir=${srcdir:-.}
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

listed=$(sed -n 's/^	\([_a-z].*\);$/\1/p' "$srcdir/shim/namespace/root.map" | LC_ALL=C sort)
exported=$(nm -D --defined-only libgpuckpt-root.so | awk '{ print $3 }' | LC_ALL=C sort)
same "$exported" "$listed" "the root object exports only the listed functions"

needed=$(readelf -d libgpuckpt-root.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
same "$needed" libc.so.6 "the root object needs only libc"

tap_done
