#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fortran programs with mpif.h, the module mpi and the module mpi_f08: the exports of the stand-in
# for libmpi_mpifh.so.40, and a program whose output is the same with Open MPI alone, with the
# stand-ins, and over whole cycles of quiesce and rebuild. Runs in the build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"
command -v mpifort >/dev/null || skip_all "no mpifort: install libopenmpi-dev and gfortran"
top=$(cd "${srcdir:-.}" && pwd)
libs="$PWD/libgpuckpt-mpi.so $PWD/libgpuckpt-mpi-fortran.so"
real=$(ldconfig -p | sed -n 's/^.*libmpi_mpifh\.so\.40 .*=> //p' | head -n 1)
tmp=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$tmp"' EXIT

names() { # LIBRARY: without a name that is internal to Open MPI, a class of its objects
	nm -D --defined-only "$1" | awk '$3 != "ompi_intercept_extra_state_t_class" { print $3 }' |
		LC_ALL=C sort
}

# Old programs call mpif.h's functions with arguments of any type, which is an extension.
build() { # WAY
	mkdir "$tmp/$1"
	(cd "$tmp/$1" && mpifort -O1 -cpp "-D$1" -fallow-argument-mismatch -w -o ways \
		"$top/test/mpi/fortran/plan.F90" "$top/test/mpi/fortran/callbacks.F90" \
		"$top/test/mpi/fortran/ways.F90" "$top/test/mpi/fortran/cycle.c") \
		>"$tmp/log" 2>&1 || cat "$tmp/log"
}

run() { # WAY RANKS [MPIRUN-OPTIONS]
	way=$1 ranks=$2
	shift 2
	timeout "$limit" mpirun --oversubscribe -np "$ranks" "$@" "$tmp/$way/ways" 2>&1
}

same "$(names ./libgpuckpt-mpi-fortran.so)" "$(names "$real")" "it exports the names of $real"
for way in MPIFH USEMPI USEMPIF08; do
	build $way
	for ranks in 1 4; do
		want=$(run $way $ranks)
		same "$(run $way $ranks -x "LD_PRELOAD=$libs")" "$want" "$way, $ranks ranks"
		# several ranks only with GPUCKPT_LONG=1: see reloads in lib.sh
		[ $ranks -eq 1 ] || [ -n "${GPUCKPT_LONG-}" ] || continue
		mkdir "$tmp/cycle"
		# the program's output, behind that of runs that hung
		same "$(unless_it_hangs run $way $ranks -x "LD_PRELOAD=$libs" \
			-x "GPUCKPT_MPI_TEST=$tmp/cycle" | tail -n 1)" \
			"$want" "$way, $ranks ranks, two cycles"
		rm -rf "$tmp/cycle"
	done
done
tap_done
