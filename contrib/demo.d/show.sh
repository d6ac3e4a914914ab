# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The demo's output: a line for each event, a progress bar, the table at the end.

now() { echo "$EPOCHREALTIME"; }
calc() { awk "BEGIN { print $1 }"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
begin_s=$(now)
bar_shown=

say()
{
	bar_end
	printf '%s %6.1f s  %s\n' "$(date +%H:%M:%S)" "$(since "$begin_s")" "$*"
}

# fail TEXT [LOG...]: print the end of the logs and give up
fail()
{
	say "FAILED: $1"
	shift
	local log
	for log in "$@" "$GPUCKPT_LAB"/log/gpuckptd.out; do
		[[ ! -s $log ]] || { echo "--- $log"; tail -n 25 "$log"; }
	done
	exit 1
}

# bar LABEL DONE ALL: redrawn in place on a terminal, once at its end elsewhere
bar()
{
	local label=$1 done=$2 all=$3 width=40 filled text
	[[ $all -gt 0 ]] || return 0
	[[ $done -le $all ]] || done=$all
	filled=$((width * done / all))
	printf -v text '%*s' "$filled" ''
	text=$(printf '%-*s' "$width" "${text// /#}")
	text=$(printf '                    %-22s [%s] %3d %%' "$label" "$text" \
		$((100 * done / all)))
	if [[ -t 1 ]]; then
		printf '\r%s' "$text"
		bar_shown=1
	elif [[ $done -eq $all && $text != "$bar_shown" ]]; then
		echo "$text"
		bar_shown=$text
	fi
}

bar_end()
{
	[[ -z $bar_shown || ! -t 1 ]] || echo
	bar_shown=
}

row() { printf '  %-46s %s\n' "$1" "$2"; }
mib() { awk -v b="$1" 'BEGIN { printf "%.1f MiB", b / 1048576 }'; }
