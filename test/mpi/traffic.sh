#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random MPI programs on 4 ranks with a checkpoint every 50 ms (the library lives on; restarts are
# in test/cluster/mpi_traffic.sh): the digests are the same as with Open MPI alone. In C, with
# threads, and in Fortran. A few seeds; hundreds with GPUCKPT_LONG=1, from GPUCKPT_SEED on. Runs in
# the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"
top=$(cd "${srcdir:-.}" && pwd)
batch=5 batches=1
[ -z "${GPUCKPT_LONG-}" ] || batch=25 batches=4
first=${GPUCKPT_SEED-1}
export OMPI_MCA_osc=pt2pt # Open MPI 4.1's other components give wrong results within one node
tmp=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$tmp"' EXIT

# The digest of a program covers each message; a wrong one ends the program. (A checkpoint may be
# refused, for a file that has just been removed: that is said on stderr.)
digests() { # NAME COMMAND...: the same digests with Open MPI alone and with several checkpoints
	name=$1
	shift
	mkdir "$tmp/cycle" "$tmp/files"
	plain 4 "$@" >"$tmp/want" 2>"$tmp/errors"
	GPUCKPT_MPI_TEST=$tmp/cycle GPUCKPT_MPI_TEST_MS=50 GPUCKPT_MPI_TEST_KEEP=1 \
		standin 4 "$@" >"$tmp/got" 2>>"$tmp/errors"
	# ranks exchange words in numbered files; a checkpoint has at least two rounds of them
	rounds=$(find "$tmp/cycle" -name '[0-9]*.0' -printf '%f\n' | sed 's/\..*//' |
		sort -n | tail -n 1)
	[ -s "$tmp/want" ] && cmp -s "$tmp/want" "$tmp/got" && [ "${rounds:-0}" -ge 4 ]
	result=$?
	check $result "$name, ${rounds:-0} rounds of checkpoints"
	[ $result -eq 0 ] || { diff "$tmp/want" "$tmp/got"; cat "$tmp/errors"; } | head -n 40 |
		sed 's/^/# /'
	rm -rf "$tmp/cycle" "$tmp/files"
}

fortran() { # WAY: as in test/mpi/fortran/way.h
	mkdir "$tmp/$1"
	parts="plan callbacks types messages collectives objects storage traffic"
	(cd "$tmp/$1" && for part in $parts; do
		mpifort -c -O1 -cpp "-D$1" -fallow-argument-mismatch -w \
			"$top/test/mpi/fortran/$part.F90"
	done && mpifort -o traffic ./*.o) >"$tmp/log" 2>&1 || sed 's/^/# /' "$tmp/log"
}

while [ $batches -gt 0 ]; do
	digests "C, seeds from $first" \
		./traffic --seed="$first" --seeds=$batch --pause=2000 --scratch="$tmp/files"
	digests "C with threads, seeds from $first" \
		./traffic --seed="$first" --seeds=$batch --threads=3 --pause=2000
	first=$((first + batch))
	batches=$((batches - 1))
done
if command -v mpifort >/dev/null; then
	library=$library:$PWD/libgpuckpt-mpi-fortran.so
	for way in MPIFH USEMPI USEMPIF08; do
		fortran $way
		digests "$way, seeds from $first" \
			"$tmp/$way/traffic" "$first" $batch 200 2000 "$tmp/files"
	done
fi
tap_done
