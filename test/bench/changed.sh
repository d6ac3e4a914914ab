# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A second checkpoint of a program of which 5 percent changed, compared with the first: bytes,
# objects, and CPU seconds of the agent with its workers and of the clones (which the ranks reap).
# Also the largest memory (PSS) of the agent with all its processes while the two are written.
: "${dir:?}" "${burn:?}"

# changed NAME OPTIONS MIB RANKS OBJECTS: runs one job of $burn in $dir. "OBJECTS JOB" lists its
# objects in the store, one a line.
changed()
{
	local name=$1 mib=$3 ranks=$4 objects=$5 job first second count before between after
	job=$(submit "$dir" -N1 -n"$ranks" <<<"#!/bin/bash
		srun --gpu-ckpt${2:+=$2} $burn $mib 100000 50 0.5 5")
	bench_ready "$job"
	sleep $((2 + mib / 400))
	agent_memory >"$dir/agent" &
	before=$(cpu_of_job)
	first=$(alice gpuckpt create "$job" --json | jq '.steps[0].stored / 1048576')
	count=$("$objects" "$job" | wc -l)
	sleep 4
	between=$(cpu_of_job)
	second=$(alice gpuckpt create "$job" --json | jq '.steps[0].stored / 1048576')
	sleep 1
	after=$(cpu_of_job)
	end_job "$job"
	wait $!
	figure "${name}_first" "$(calc "$first")" MiB
	figure "${name}_objects" "$count" objects
	figure "${name}_second" "$(calc "$second")" MiB
	figure "${name}_stored" "$(calc "100 * $second / $first")" percent
	figure "${name}_cpu_first" "$(calc "($between - $before) / 100")" s
	figure "${name}_cpu_second" "$(calc "($after - $between) / 100")" s
	figure "${name}_cpu" "$(calc "100 * ($after - $between) / ($between - $before)")" percent
	figure "${name}_agent_memory" "$(tail -n 1 "$dir/agent")" MiB
	at_most "objects of the first, with a manifest a rank and the commit ($name)" "$count" \
		"$(calc "int($first / 16) + 2 * $ranks + 2")"
	at_most "bytes of the second, in percent ($name)" "$(calc "100 * $second / $first")" 8
	at_most "CPU time of the second, in percent ($name)" \
		"$(calc "100 * ($after - $between) / ($between - $before)")" 25
	at_most "memory of the agent, in MiB ($name)" "$(tail -n 1 "$dir/agent")" 256
}

# CPU ticks of the agents, of their dead children and of the ranks' dead children.
cpu_of_job()
{
	# shellcheck disable=SC2016 # expanded there
	root bash -c 'for n in /proc/[0-9]*; do
			comm=$(cat $n/comm 2>/dev/null) || continue
			[[ $comm = gpuckpt-agent ]] && cut -d " " -f 14-17 $n/stat
			[[ $comm = burn ]] && cut -d " " -f 16-17 $n/stat
		done' | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { print sum + 0 }'
}

# The largest memory of all agents together, in MiB, sampled without a pause until there is no
# agent.
agent_memory()
{
	# shellcheck disable=SC2016
	root bash -c 'most=0
		while pids=$(pgrep "^gpuckpt-[aw]"); do
			sum=0
			for p in $pids; do
				pss=$(awk "/^Pss:/ { print \$2 }" /proc/$p/smaps_rollup 2>/dev/null)
				sum=$((sum + ${pss:-0}))
			done
			((sum <= most)) || most=$sum
			sleep 0.05
		done
		echo $((most / 1024))'
}
