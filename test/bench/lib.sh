# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the benchmarks: figures, medians, and the jobs of test/cluster/lib.sh.
bench_dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=../cluster/lib.sh
. "$bench_dir/../cluster/lib.sh"

# figure NAME VALUE UNIT
figure() { printf '%s %s %s\n' "$1" "$2" "$3"; }

calc() { awk "BEGIN { printf \"%.4g\", $1 }"; }

# median: of the numbers on stdin
median()
{
	sort -g | awk '{ v[NR] = $1 }
		END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# at_least NAME VALUE WANT; at_most NAME VALUE WANT: counted like a test
at_least() { report "$(awk "BEGIN { print !($2 >= $3) }")" "$1: $2, at least $3" >&2; }
at_most() { report "$(awk "BEGIN { print !($2 <= $3) }")" "$1: $2, at most $3" >&2; }

give_up()
{
	echo "bench: $*" >&2
	exit 1
}

bench_ready() { wait_ready "$1" 60 >&2 || give_up "job $1 did not come up: $(tail -n 3 "$dir/out")"; }
