# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The agent's memory by the size of the image.
: "${dir:?}" "${memory:?}" "${top:?}"

# agent_peaks FILE: the largest memory of one process of the agents (RSS), and of all of them
# together (PSS), in MiB; samples until FILE exists
agent_peaks()
{
	root python3 - "$1" <<-'END'
		import glob, os, re, sys, time

		def number(path, key):
		    try:
		        with open(path) as f:
		            found = re.search(key + r":\s+(\d+)", f.read())
		    except OSError:
		        return 0
		    return int(found[1]) if found else 0

		def ours(path):
		    try:
		        with open(path + "/comm") as f:
		            return re.match("gpuckpt-[aw]", f.read())
		    except OSError:
		        return None

		one = all = 0
		while not os.path.exists(sys.argv[1]):
		    found = [path for path in glob.glob("/proc/[0-9]*") if ours(path)]
		    one = max([one] + [number(path + "/status", "VmHWM") for path in found])
		    all = max(all, sum(number(path + "/smaps_rollup", "\nPss") for path in found))
		    time.sleep(0.01)
		print(one // 1024, all // 1024)
	END
}

# memory_of NAME CMD...: prints the figures while CMD runs
memory_of()
{
	local name=$1 peaks one all
	shift
	rm -f "$dir/peaks.end"
	agent_peaks "$dir/peaks.end" >"$dir/peaks" &
	peaks=$!
	"$@" >&2
	touch "$dir/peaks.end"
	wait "$peaks"
	read -r one all <"$dir/peaks"
	figure "memory_${name}_process" "$one" MiB
	figure "memory_${name}_all" "$all" MiB
	at_most "memory of the agent, in MiB ($name)" "$all" 256
}

memory_restart()
{
	root scontrol requeue "$1"
	wait_for 120 job_restarted "$1" 1
	wait_ready "$1" 300
}

all_there() { [[ $(grep -c there "$dir/there") -eq $1 ]]; }

# MEMORY_RANKS programs on a node, each with as many chunks as a program of the given GiB: a first
# checkpoint, a second that builds on it, a restart, and a checkpoint after it. MEMORY_KEYS: more
# keys of --gpu-ckpt.
bench_memory()
{
	local gib job ranks=${MEMORY_RANKS-1} \
		keys=store=file:$memory,timeout=600s${MEMORY_KEYS:+,$MEMORY_KEYS}
	for gib in ${MEMORY_GIB-1 8 32 64}; do
		rm -f "$dir/enough"
		job=$(submit "$dir" -N1 -n"$ranks" <<<"#!/bin/bash
			srun --gpu-ckpt=$keys python3 $top/test/programs/sparse.py $gib \
				$dir/enough >there")
		wait_for 60 all_there "$ranks" || give_up "job $job did not start"
		bench_ready "$job"
		memory_of "${gib}_first" alice gpuckpt create "$job"
		memory_of "${gib}_second" alice gpuckpt create "$job"
		memory_of "${gib}_restart" memory_restart "$job"
		memory_of "${gib}_after" alice gpuckpt create "$job"
		alice touch "$dir/enough"
		wait_job "$job" COMPLETED 60 >&2
		tail -n "$ranks" "$dir/there" >&2
		root rm -rf "$memory/lab/$job"
	done
}
