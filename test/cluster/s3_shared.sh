#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What ranks have in common in an object store (the text of a program that is another by now) is fetched
# once by all ranks of a node that come back, and once by verify; and where restorers are killed while one
# of them fetches it, the restart is made again and works.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
burn=$(program burn)
dir=$(work_dir)
"$burn" 8 20000 0 >"$dir/want"
cp "$burn" "$dir/burn"

# start KEYS: four ranks on a node
start()
{
	submit "$dir" -N1 -n4 <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $dir/burn 8 20000 50 >rank\$SLURM_PROCID'
	END
}

# fetched NAME...: how often the most wanted of these objects was got, since forget
fetched() { requests "^begin [0-9]+ get " | grep -oF "$(printf '/%s\n' "$@")" | sort | uniq -c | sort -n | awk 'END { print $1 + 0 }'; }

# goes_on: the ranks' lines are those of an uninterrupted run, and become more
goes_on()
{
	local r lines
	for r in 0 1 2 3; do
		lines=$(($(wc -l <"$dir/rank$r") + 1))
		wait_for 30 has_lines "$r" "$lines" &&
			cmp <(head -n "$lines" "$dir/rank$r") <(head -n "$lines" "$dir/want") || return
	done
}
has_lines() { [[ $(wc -l <"$dir/rank$1") -ge $2 ]]; }

job=$(start keep=2)
check "four ranks on a node" wait_ready "$job"
check "a checkpoint of them" alice gpuckpt create "$job"
manifest=$(s3_has "/$job/0/1-.*/rank-0\.json$")
request GET "/gpuckpt/$manifest" >/dev/null
mapfile -t shared < <(jq -r '.store.objects[.store.shared[]] | sub(".*/"; "")' "$body")
check_not "they have objects in common" test "${#shared[@]}" = 0
forget
check "verify" alice gpuckpt verify "$job"
is "$(fetched "${shared[@]}")" 1 "reads each of them once"
end_job "$job"

# ---- all come back

"${CC-gcc}" -O1 -o "$dir/burn.new" "$top/test/programs/burn.c" -pthread -lm
mv "$dir/burn.new" "$dir/burn"
forget
next=$(start "restart=$job:1")
check "another job goes on" wait_ready "$next" 60
check "where they were" goes_on
is "$(fetched "${shared[@]}")" 1 "a common object came to the node once"
end_job "$next"

# ---- who fetches dies

forget
faults "1 get /${shared[0]} hold"
next=$(start "restart=$job:1")
check "a restorer's request for a common object hangs" \
	wait_for 60 requests "^begin [0-9]+ get .*/${shared[0]} .* hold$"
# Which of them it is has no name: all of them have the same.
check "the restorers are killed" root pkill -KILL -u alice gpuckpt-worker
faults
check "the restart is made again" wait_for 120 job_restarted "$next" 1
check "from the same images" wait_ready "$next" 60
check "where they were" goes_on
end_job "$next"

finish
