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

wrong 'a verb is missing'
wrong 'no verb "frobnicate"' frobnicate
wrong 'no verb "wach"' wach 1
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
wrong 'array or heterogeneous' create 12_3
wrong 'array or heterogeneous' create 12+1
wrong 'numbered steps' create 12.batch
wrong 'numbered steps' create 12.extern
wrong 'one argument too many' create 1 2
wrong 'one argument too many' status 1 2
wrong 'one SEQ at most' show 1.0 2 3
wrong 'one SEQ at most' verify 1.0 2 3
wrong 'the step must be named: 1.STEPID' show 1 2
wrong 'the step must be named: 1.STEPID' remove 1 2
wrong '"x" is not a sequence number' show 1.0 x
wrong '"0" is not a sequence number' remove 1.0 0
wrong '"4294967296" is not a sequence number' remove 1.0 4294967296
wrong 'say which' remove 1.0
wrong 'either SEQ or --all' remove 1.0 3 --all
wrong '--all is for remove and check' list --all
wrong 'nothing is printed' disable 1 --json
wrong 'nothing is printed' enable --json 1
wrong 'nothing to wait for' able 1 --no-wait
wrong 'nothing to wait for' status --no-wait
wrong '--quick is for verify' list --quick
wrong '--restore is for verify' list --restore
wrong 'either --quick or --restore' verify 1 --quick --restore
wrong '--verify is for create' requeue 1 --verify
wrong 'either --no-wait or --verify' create 1 --no-wait --verify
wrong '--store is for import' list --store file:/x
wrong 'export: it takes JOBID[.STEPID]:SEQ FILE' export 1:2
wrong '"1" is not JOBID[.STEPID]:SEQ' export 1 f
wrong '"1:0" is not JOBID[.STEPID]:SEQ' export 1:0 f
wrong '"x" is not JOBID[.STEPID]' export x:1 f
wrong 'import: it takes FILE' import
wrong 'import: it takes FILE' import a b
wrong 'one argument too many' check 1
wrong '--no-wait: there is nothing' check --no-wait
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
"$gpuckpt" list x -V >"$dir/out" 2>"$dir/err" && grep -q '^gpuckpt [0-9]' "$dir/out"
result $? "--version"
"$gpuckpt" --help >/dev/full 2>"$dir/err"
[ $? -eq 1 ]
result $? "output that cannot be written"
tap_done
