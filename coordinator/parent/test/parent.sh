#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpuckpt-parent: its program is as without it, and its end is the program's. Slurm, which is this
# script here, has sent the program its signals, too; those of other processes are passed on.
# shellcheck disable=SC2016 # those programs' own variables
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
parent=$PWD/gpuckpt-parent
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# under PROGRAM ARGUMENTS...: under it, as Slurm executes it
under() { GPUCKPT_PROGRAM=$1 "$parent" "${@:2}"; }
# begin PROGRAM ARGUMENTS...: in the background, until it has made the file `ready`
begin()
{
	rm -f "$tmp/ready"
	GPUCKPT_PROGRAM=$1 "$parent" "${@:2}" &
	until [[ -e $tmp/ready ]]; do sleep 0.01; done
}

under /bin/sh -c 'exit 7'
same $? 7 "its status is the program's"
same "$(under /bin/sh -c 'echo "$0 $*"' name one "two three")" "name one two three" \
	"the program has the arguments"
same "$(under /usr/bin/env | grep -c GPUCKPT_PROGRAM)" 0 "and the environment without ours"
same "$(under /bin/bash -c 'cat /proc/$PPID/comm')" gpuckpt-parent "it is the parent"
same "$(under /bin/sed -n 's/\x0.*//p' /proc/self/cmdline)" /bin/sed \
	"argv[0] is the program's path where Slurm has put gpuckpt-parent's"
same "$(GPUCKPT_PROGRAM=/bin/bash bash -c 'exec -a name "$1" -c "echo \$0"' - "$parent")" name \
	"and as it was where another program has executed it"
same "$(trap '' CHLD USR1; under /bin/grep SigIgn /proc/self/status)" \
	"$(trap '' CHLD USR1; /bin/grep SigIgn /proc/self/status)" "signals stay ignored"
same "$(under /bin/grep SigBlk /proc/self/status)" "$(/bin/grep SigBlk /proc/self/status)" \
	"and none is blocked"

(ulimit -c 0; under /bin/sh -c 'kill -SEGV $$') 2>/dev/null
same $? 139 "the program's signal is its own"

passing='trap "echo TERM; exit 5" TERM; trap "echo USR1" USR1; touch "$1"
	while :; do sleep 0.01; done'
begin /bin/bash -c "$passing" - "$tmp/ready" >"$tmp/said"
kill -USR1 $! # Slurm's
sh -c "kill -TERM $!"
wait $!
same $? 5 "a signal that a process sends to the task is passed on"
same "$(<"$tmp/said")" TERM "Slurm's, which the program has got itself, is not"

begin /bin/bash -c 'echo $$ >"$1.pid"; mv "$1.pid" "$1"; sleep 100' - "$tmp/ready"
kill -KILL $!
wait $! 2>/dev/null
gone() { for _ in {1..500}; do [[ -d /proc/$1 ]] || return 0; sleep 0.01; done; return 1; }
gone "$(<"$tmp/ready")"
check $? "a program whose task is killed is killed"

under "$tmp/absent" 2>"$tmp/said"
same $? 2 "a program that is gone: the error is the status"
same "$(<"$tmp/said")" "gpuckpt: cannot execute $tmp/absent: No such file or directory" \
	"and a line says so"
env -u GPUCKPT_PROGRAM "$parent" 2>"$tmp/said"
same $? 2 "a user who calls it gets an error"
same "$(<"$tmp/said")" "gpuckpt-parent: only gpuckpt's SPANK plugin starts it" "and one line"
tap_done
