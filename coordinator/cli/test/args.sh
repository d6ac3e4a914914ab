#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Wrong arguments of gpuckpt: exit status 2, one line that names what is wrong, nothing on stdout.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
gpuckpt=${GPUCKPT:-./gpuckpt}
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

result() { check "$1" "$2" || show "$(cat "$dir/out" "$dir/err")"; }

# wrong TEXT ARGUMENT...: refused, and the line has TEXT in it
wrong()
{
	text=$1
	shift
	"$gpuckpt" "$@" >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] && [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
		grep -qF -- "$text" "$dir/err"
	result $? "gpuckpt $*: $(cat "$dir/err")"
}

"$gpuckpt" >"$dir/out" 2>"$dir/err"
[ $? -eq 2 ] && [ ! -s "$dir/out" ] && grep -q '^usage: gpuckpt VERB' "$dir/err" &&
	grep -q 'gpuckpt help' "$dir/err"
result $? "gpuckpt alone prints the short usage"
wrong 'a verb is missing' --json
wrong 'no verb "frobnicate"' frobnicate
wrong 'no verb "wach" (did you mean watch?)' wach 1
wrong 'no verb "stauts" (did you mean status?)' help stauts
wrong 'no verb "xy"; see gpuckpt help' xy 1
wrong 'no verb ""' ''
for verb in able create vacate requeue disable enable show verify remove; do
	wrong "$verb: JOBID[.STEPID] is missing" $verb
done
for verb in able create vacate requeue disable enable list show status verify remove; do
	wrong "$verb: \"x\" is not JOBID[.STEPID]" $verb x
done
for job in '' 0 -- -1 +1 ' 1' '1 ' 1x 0x10 1. .1 1.x 1.-1 1..2 1.2.3 4294967296 99999999999; do
	wrong 'list: ' list -- "$job"
done
wrong 'a part of a heterogeneous job' create 12+1
for job in 12_ 12_x '12_[' '12_[]' '12_[4-2]' '12_[2,]' '12_[,2]' '12_[2-]' "12_[$(seq -s, 40)]"; do
	wrong 'tasks of an array are JOBID_TASK' create "$job"
done
wrong '"12_2-4" is not JOBID' create 12_2-4
wrong '"12_2x.0" is not JOBID' create 12_2x.0
wrong 'numbered steps' create '12_[2-4].batch'
wrong 'numbered steps' create 12.batch
wrong 'numbered steps' create 12.extern
wrong '"y" is not JOBID' create 1 y
wrong '"1.0:2" is not JOBID' create 1.0:2
wrong 'the step must be named: 1.STEPID' show 1:2
wrong '"1.0:" is not JOBID' show 1.0:
wrong '"1.0:0" is not JOBID' show 1.0:0
wrong 'the step must be named: 1.STEPID' remove 1 2
wrong '"x" is not a sequence number' remove 1.0 x
wrong '"0" is not a sequence number' remove 1.0 0
wrong '"4294967296" is not a sequence number' remove 1.0 4294967296
wrong 'say which' remove 1.0
wrong 'either SEQ or --all' remove 1.0 3 --all
wrong '--all is for remove, check' list --all
wrong 'disable: --json is for able, create, ' disable 1 --json
wrong '--no-wait is for create, vacate, requeue' able 1 --no-wait
wrong '--user is for list, status, watch' create 1 -u me
wrong '--verbose is for able' status -v
wrong '--noheader is for' show 1 --noheader
wrong '; see gpuckpt help status' status -v
wrong '--quick is for verify' list --quick
wrong '--restore is for verify' list --restore
wrong 'either --quick or --restore' verify 1 --quick --restore
wrong '--verify is for create' requeue 1 --verify
wrong 'either --no-wait or --verify' create 1 --no-wait --verify
wrong '--store is for import' list --store file:/x
wrong 'export: it takes JOBID[.STEPID]:SEQ FILE' export 1:2
wrong '"1" is not JOBID[.STEPID]:SEQ' export 1 f
wrong '"1:0" is not JOBID[.STEPID]:SEQ' export 1:0 f
wrong '"x:1" is not JOBID[.STEPID]:SEQ' export x:1 f
wrong 'import: it takes FILE' import
wrong 'import: it takes FILE' import a b
wrong 'one argument too many' check 1
wrong '--no-wait is for' check --no-wait
wrong 'no option --frobnicate' list --frobnicate
wrong 'no option -x' list -x
wrong 'option --json=1 takes no value' list --json=1
wrong 'option -f needs a value' list -f
wrong 'option --conf needs a value' list --conf

"$gpuckpt" list -f "$dir/none" >"$dir/out" 2>"$dir/err"
[ $? -eq 1 ] && grep -q "$dir/none" "$dir/err"
result $? "no configuration: $(cat "$dir/err")"
echo 'Frob=1' >"$dir/conf"
"$gpuckpt" list -f "$dir/conf" >"$dir/out" 2>"$dir/err"
[ $? -eq 1 ] && grep -q "$dir/conf" "$dir/err" && grep -q Frob "$dir/err"
result $? "bad configuration: $(cat "$dir/err")"
echo 'CoordinatorHost=127.0.0.1
CoordinatorPort=1' >"$dir/conf"
GPUCKPT_CONF=$dir/conf "$gpuckpt" list >"$dir/out" 2>"$dir/err"
[ $? -eq 1 ] && grep -q '127.0.0.1 port 1' "$dir/err"
result $? "nobody there: $(cat "$dir/err")"
echo 'CoordinatorHost=127.0.0.1
CoordinatorUser=nosuchuser' >"$dir/conf"
GPUCKPT_CONF=$dir/conf "$gpuckpt" list >"$dir/out" 2>"$dir/err"
[ $? -eq 1 ] && grep -q 'CoordinatorUser=nosuchuser' "$dir/err"
result $? "no such user: $(cat "$dir/err")"
"$gpuckpt" --help >"$dir/out" 2>"$dir/err" && grep -q '^usage: gpuckpt' "$dir/out"
result $? "--help"
words='able create vacate requeue disable enable list show status watch verify export import'
words="$words remove check"
"$gpuckpt" help >"$dir/out" 2>"$dir/err" && "$gpuckpt" -h | cmp - "$dir/out" &&
	[ "$(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' "$dir/out" | tr '\n' ' ')" = "$words " ]
result $? "gpuckpt help names all verbs"
# Each verb's help has its arguments, the options that it takes and no others, and an example.
for verb in $words; do
	"$gpuckpt" help "$verb" >"$dir/out" 2>"$dir/err" && "$gpuckpt" "$verb" --help |
		cmp - "$dir/out" && grep -q "^usage: gpuckpt $verb" "$dir/out" &&
		grep -q "^  gpuckpt $verb " "$dir/out"
	result $? "gpuckpt help $verb"
done
"$gpuckpt" help create >"$dir/out" && grep -q -- '--no-wait' "$dir/out" &&
	! grep -q -- --quick "$dir/out"
result $? "the help of a verb has its options only"
"$gpuckpt" list x -V >"$dir/out" 2>"$dir/err" && grep -q '^gpuckpt [0-9]' "$dir/out"
result $? "--version"
"$gpuckpt" --help >/dev/full 2>"$dir/err"
[ $? -eq 1 ]
result $? "output that cannot be written"
tap_done
