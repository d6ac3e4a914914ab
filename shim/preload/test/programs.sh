#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real programs as ranks, cloned repeatedly while they run: same output, same exit status, and no
# child that they did not make. Runs in the build folder.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

compare() { # NAME PROGRAM [ARGUMENT...]: alone and as a rank
	name=$1
	shift
	if ! command -v "$1" >/dev/null; then
		skip "$name" "$1 is not here"
		return
	fi
	"$@" >"$dir/alone" 2>/dev/null
	alone=$?
	./preload_run "$@" >"$dir/rank" 2>"$dir/err"
	rank=$?
	[ $alone -eq $rank ] && cmp -s "$dir/alone" "$dir/rank" && grep -q '^clones:' "$dir/err"
	check $? "$name ($(sed -n 's/^clones: //p' "$dir/err") clones)" || show "$(cat "$dir/err")"
}

compare "a shell with children and pipes" bash -c '
	for i in 1 2 3 4 5; do seq 1 2000 | sort -n | tail -1; sleep 0.02; done
	(exit 3) & wait $!; echo $?; exit 5'
compare "a shell that becomes another program" bash -c 'sleep 0.1; exec seq 1 10'
compare "a program that fails" false
compare "python3: threads, subprocesses, fork" python3 -c '
import os, subprocess, threading, multiprocessing as mp
def f(x): return x * x
ts = [threading.Thread(target=lambda: sum(range(100000))) for _ in range(16)]
[t.start() for t in ts]; [t.join() for t in ts]
print(subprocess.run(["echo", "child"], capture_output=True).stdout)
with mp.get_context("fork").Pool(2) as p: print(p.map(f, range(10)))
print(os.waitstatus_to_exitcode(os.system("exit 4")))
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print("no child")'
compare "64 threads" python3 -c '
import threading, time
b = threading.Barrier(64)
def f():
    for i in range(5): b.wait(); time.sleep(0.01)
ts = [threading.Thread(target=f) for _ in range(64)]
[t.start() for t in ts]; [t.join() for t in ts]; print("done")'
compare "GROMACS" gmx -quiet help commands
tap_done
