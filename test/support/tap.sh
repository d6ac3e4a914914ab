# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What tap.h is, for tests that are shell scripts: sourced, then checks, then tap_done.
n=0

# show TEXT...: lines that explain a failure
show() { printf '%s\n' "$@" | head -n 60 | sed 's/^#* *//; s/^/# /'; }

check() { # RESULT NAME; gives the result
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
	return "$1"
}

all_of() { # NAME CONDITION...: shell texts, evaluated until one is false, which a failure shows
	name=$1
	shift
	for condition; do
		eval "$condition" && continue
		check 1 "$name" || show "false: $condition"
		return 1
	done
	check 0 "$name"
}

same() { # GOT WANTED NAME
	[ "$1" = "$2" ]
	check $? "$3" || show "got:" "$1" "wanted:" "$2"
}

none() { # TEXT NAME: there is none
	[ -z "$1" ]
	check $? "$2" || show "$1"
}

passes() { # NAME COMMAND...: it prints TAP, and all of that is ok
	name=$1
	shift
	output=$("$@" 2>&1 </dev/null)
	result=$?
	if printf '%s\n' "$output" | grep -q '^not ok'; then result=1; fi
	printf '%s\n' "$output" | grep -q '^1\.\.[1-9]' || result=1
	check $result "$name" || show "$output"
}

skip() { # NAME REASON
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

skip_all() { # REASON
	echo "1..0 # SKIP $1"
	exit 0
}

tap_done() { echo "1..$n"; }
