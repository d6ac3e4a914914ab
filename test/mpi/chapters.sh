#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claims about MPI by chapter of the standard (chapters/): the results of Open MPI alone, of the
# stand-in, of the stand-in with a checkpoint every 25 ms, and of one rank with restarts are the
# same. Many more turns with GPUCKPT_LONG=1. Runs in the build folder.
# shellcheck source=../../shim/mpi/test/lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"
turns=2
[ -z "${GPUCKPT_LONG-}" ] || turns=25
tmp=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$tmp"' EXIT

results() { # NAME RANKS COMMAND...: the results of all ranks, in $tmp/NAME
	name=$1 ranks=$2
	shift 2
	mkdir "$tmp/$name" "$tmp/scratch"
	"$@" ./mpi_chapters "$tmp/$name" "$tmp/scratch" $turns >"$tmp/log" 2>&1 </dev/null &&
		[ "$(find "$tmp/$name" -type f -size +1k | wc -l)" -eq "$ranks" ]
	result=$?
	rm -rf "$tmp/scratch"
	return $result
}

as_plain() { # NAME RANKS COMMAND...: the results are those of Open MPI alone
	name=$1
	results "$@" && diff -r "$tmp/plain$2" "$tmp/$name" >"$tmp/differences"
	check $? "ranks: $2, $name" ||
		show "$(tail -n 20 "$tmp/log")" "$(cut -c1-200 "$tmp/differences")"
}

checkpoints() { # RANKS
	mkdir "$tmp/cycles"
	GPUCKPT_MPI_TEST=$tmp/cycles GPUCKPT_MPI_TEST_MS=25 GPUCKPT_MPI_TEST_KEEP=1 \
		as_plain "checkpoints" "$1" standin "$1"
	# ranks exchange words in numbered files; a checkpoint has at least two rounds of them
	rounds=$(find "$tmp/cycles" -name '[0-9]*.0' -printf '%f\n' | sed 's/\..*//' | sort -n |
		tail -n 1)
	[ "${rounds:-0}" -ge 10 ]
	check $? "ranks: $1, several checkpoints came (${rounds:-0} rounds)"
}

results plain4 4 plain 4
check $? "ranks: 4, Open MPI alone" || show "$(tail -n 20 "$tmp/log")"
as_plain "the stand-in" 4 standin 4
checkpoints 4
turns=1
results plain1 1 env
check $? "ranks: 1, Open MPI alone" || show "$(tail -n 20 "$tmp/log")"
mkdir "$tmp/words"
EVERY=12 GPUCKPT_MPI_TEST=$tmp/words as_plain "restarts" 1 alone
tap_done
