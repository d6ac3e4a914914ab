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

# at_least NAME VALUE WANT; at_most NAME VALUE WANT: count like a test; without a figure it fails
at_least() { compare "$1" "$2" '>=' "$3" "at least"; }
at_most() { compare "$1" "$2" '<=' "$3" "at most"; }

compare()
{
	local status=1 figure='^-?[0-9]*[.]?[0-9]+(e[-+]?[0-9]+)?$'
	[[ ! $2 =~ $figure || ! $4 =~ $figure ]] || status=$(awk "BEGIN { print !($2 $3 $4) }")
	report "$status" "$1: ${2:-no figure}, $5 ${4:-no figure}" >&2
}

give_up()
{
	echo "bench: $*" >&2
	exit 1
}

bench_ready()
{
	wait_ready "$1" 60 >&2 || give_up "job $1 did not start: $(tail -n 3 "$dir/out")"
}
