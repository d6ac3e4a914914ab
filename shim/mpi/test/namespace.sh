#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The real library in a namespace of its own, with several ranks; and what the root object shows.
# Runs in the build folder.
srcdir=${srcdir:-.}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
n=0

check() { # RESULT NAME
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

ranks() { # NAME OPTIONS OF MPIRUN
	name=$1
	shift
	out=$(mpirun --oversubscribe -np 4 "$@" ./test_mpi_lists 4 2>&1)
	check $? "$name"
	[ -z "$out" ] || printf '%s\n' "$out" | sed 's/^#* */# /'
}

ranks "4 ranks: all that they own is listed"
ranks "4 ranks over TCP: all that they own is listed" --mca btl self,tcp --mca pml ob1

listed=$(sed -n 's/^	\([_a-z].*\);$/\1/p' "$srcdir/shim/mpi/namespace/root.map" | LC_ALL=C sort)
shown=$(nm -D --defined-only libgpuckpt-mpi-root.so | awk '{ print $3 }' | LC_ALL=C sort)
[ "$shown" = "$listed" ]
check $? "the root object exports the listed functions and nothing else"

needed=$(readelf -d libgpuckpt-mpi-root.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ "$needed" = libc.so.6 ]
check $? "it needs libc and nothing else"

echo "1..$n"
