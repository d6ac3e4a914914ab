#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/store.sh BENCH_STORE [DIRECTORY]: the store alone (storage/test/bench_store, from the
# build) compared with dd, lz4 and zstd on the same bytes, in turns; medians of REPEATS (five).
# DIRECTORY (/dev/shm) has 11 GiB free. Prints `name value unit`; stderr has the goals and whether
# they are met. Compressible bytes are those of this machine's programs and libraries.
set -eu
bench_store=$(readlink -f "${1:?usage: test/bench/store.sh BENCH_STORE [DIRECTORY]}")
work=$(mktemp -d -p "${2-/dev/shm}")
trap 'rm -rf "$work"' EXIT
mkdir "$work/store"
failures=0

figure() { printf '%s %s %s\n' "$1" "$2" "$3"; }
calc() { awk "BEGIN { printf \"%.4g\", $1 }"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
of() { awk -v name="$1" '$1 == name { print $2 }'; }

# goal NAME VALUE OPERATOR WANT
goal()
{
	local word=met
	awk "BEGIN { exit !($2 $3 $4) }" || { word="NOT MET"; failures=$((failures + 1)); }
	echo "$1: $2, goal $3 $4: $word" >&2
}

# rate MIB CMD...: MiB a second
rate()
{
	local begin=$EPOCHREALTIME mib=$1
	shift
	"$@"
	calc "$mib / ($EPOCHREALTIME - $begin)"
	echo
}

# The host of a virtual machine may take back free memory and then returns it page by page. So the
# memory that is needed is allocated once before.
warm()
{
	head -c 6G /dev/zero >"$work/warm"
	rm "$work/warm"
}

# compare NAME MIB "BENCH_STORE'S ARGUMENTS" CMD...: the store's rate and the command's
compare()
{
	local name=$1 mib=$2 arguments=$3 i
	shift 3
	rm -f "$work"/{ours,theirs}
	for ((i = 0; i < ${REPEATS-5}; i++)); do
		warm
		# shellcheck disable=SC2086
		"$bench_store" "$work/store" $arguments >"$work/figures"
		of store_write <"$work/figures" >>"$work/ours"
		warm
		rate "$mib" "$@" >>"$work/theirs"
		rm -f "$work/to"
	done
	figure "store_$name" "$(median <"$work/ours")" MiB/s
	figure "tool_$name" "$(median <"$work/theirs")" MiB/s
	ratio=$(calc "$(median <"$work/ours") / $(median <"$work/theirs")")
	figure "store_over_tool_$name" "$ratio" ratio
}

# encrypted NAME "BENCH_STORE'S ARGUMENTS": the store with and without encryption, in turns
encrypted()
{
	local name=$1 arguments=$2 i what sealed plain
	rm -f "$work"/{plain,sealed}
	for ((i = 0; i < ${REPEATS-5}; i++)); do
		# shellcheck disable=SC2086
		"$bench_store" "$work/store" $arguments >>"$work/plain"
		# shellcheck disable=SC2086
		"$bench_store" -e "$work/store" $arguments >>"$work/sealed"
	done
	for what in write write_cpu read; do
		figure "encrypted_${what}_$name" \
			"$(of store_$what <"$work/sealed" | median)" \
			"$([[ $what = *cpu ]] && echo s || echo MiB/s)"
		sealed=$(of store_$what <"$work/sealed" | median)
		plain=$(of store_$what <"$work/plain" | median)
		figure "encrypted_over_plain_${what}_$name" "$(calc "$sealed / $plain")" ratio
	done
}

head -c 2G /dev/urandom >"$work/noise"
compare none 2048 "$work/noise none" dd if="$work/noise" of="$work/to" bs=256K status=none
goal "write over dd" "$ratio" ">=" 0.7
objects=$(of store_objects <"$work/figures")
figure store_objects_for_2_gib "$objects" objects
goal "objects for 2 GiB" "$objects" "<=" 128
first=$(of store_stored <"$work/figures") second=$(of store_second_stored <"$work/figures")
figure second_stored "$(calc "100 * $second / $first")" percent
goal "a second checkpoint with 5 % of 2 GiB changed stores, in percent" \
	"$(calc "100 * $second / $first")" "<=" 8
second=$(of store_second_cpu <"$work/figures")
figure second_cpu "$(calc "100 * $second / $(of store_write_cpu <"$work/figures")")" percent
rm "$work/noise"
encrypted none "1024 none"

find /usr/lib /usr/bin -type f -size +64k -print0 | sort -z | xargs -0 cat 2>/dev/null |
	head -c 1G >"$work/bytes"
mib=$(($(stat -c %s "$work/bytes") >> 20))
compare lz4 "$mib" "$work/bytes lz4" lz4 -q -1 "$work/bytes" "$work/to"
goal "lz4, one thread, over lz4 -1" "$ratio" ">=" 0.8
compare zstd "$mib" "$work/bytes zstd 1 2" zstd -q -1 -T2 "$work/bytes" -o "$work/to"
goal "zstd 1, two threads, over zstd -1 -T2" "$ratio" ">=" 0.8
encrypted lz4 "$work/bytes lz4"
[[ $failures -eq 0 ]]
