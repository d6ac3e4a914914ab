# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For the tests that run CUDA programs on the fake driver, sourced in the build folder. A program prints
# TAP of its own; each run of one is one test here, its output shown if it failed.
library=$PWD/libgpuckpt-cuda.so
driver=$PWD/libcuda-fake.so
n=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
ln -s "$driver" "$tmp/libcuda.so.1"
export LD_LIBRARY_PATH="$tmp"

check() { # RESULT NAME
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

plain() { # PROGRAM...: without the stand-in
	timeout 60 "$@"
}

standin() { # PROGRAM...: with it
	LD_PRELOAD=$library timeout 60 "$@"
}

passes() { # NAME COMMAND...: it prints TAP, and all of that is ok
	name=$1
	shift
	output=$("$@" 2>&1 </dev/null)
	result=$?
	if printf '%s\n' "$output" | grep -q '^not ok'; then result=1; fi
	printf '%s\n' "$output" | grep -q '^1\.\.[1-9]' || result=1
	check $result "$name"
	[ $result -eq 0 ] || printf '%s\n' "$output" | sed 's/^/# /'
}

same() { # GOT WANTED NAME
	[ "$1" = "$2" ]
	check $? "$3"
	[ "$1" = "$2" ] || printf '%s\n' "got:" "$1" "wanted:" "$2" | sed 's/^/# /'
}
