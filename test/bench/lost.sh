# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The time that a program loses by a checkpoint: its stall, and the copies of pages that it writes
# while its clone exists. Beside it what it loses if it stops and writes its memory to a file itself
# (copy), and if it forks and the child does that (fork).
: "${dir:?}" "${memory:?}" "${bench_dir:?}" "${burn:?}" "${mdrun:?}" "${no_gromacs:?}"

# Programs that rewrite 2 GiB all the time, or 5 percent of that; GROMACS.
bench_lost()
{
	local mib=${LOST_MIB-2048} steps=${LOST_STEPS-80} name
	gcc -O2 -shared -fPIC -o "$dir/copies.so" "$bench_dir/copies.c"
	for name in ${LOST-all part gromacs}; do
		case $name in
		all) lost all "exec $burn $mib $steps 0 100" ;;
		part) lost part "exec $burn $mib $((steps * 30)) 0 5 5" ;;
		gromacs) bench_lost_gromacs $((steps * 300)) ;;
		esac
	done
}

bench_lost_gromacs()
{
	gromacs_input "$dir" 1 || { echo "lost gromacs: $no_gromacs" >&2; return; }
	lost gromacs "cd rank0; exec $mdrun -nsteps $1 2>progress"
}

# lost NAME COMMAND: in turns, so that the machine is the same for all
lost()
{
	local way i count=4 best
	for ((i = 0; i < ${LOST_RUNS-2}; i++)); do
		for way in plain copy fork taken; do
			lost_run "$way" "$count" "$2" >>"$dir/$1.$way"
		done
	done
	for way in copy fork taken; do
		calc "($(least "$1.$way") - $(least "$1.plain")) / $count" >"$dir/$1.$way.lost"
		figure "lost_$1_$way" "$(cat "$dir/$1.$way.lost")" s
	done
	best=$(sort -g "$dir/$1."{copy,fork}.lost | head -n 1)
	at_most "time lost by a checkpoint of $1, in s" "$(cat "$dir/$1.taken.lost")" \
		"$(calc "1.1 * $best")"
}

least() { sort -g "$dir/$1" | head -n 1; }

# lost_run WAY COUNT COMMAND: seconds of the command, with so many checkpoints or copies
lost_run()
{
	local job i
	rm -f "$dir"/{copies.pid,seconds}
	job=$(submit "$dir" -n1 <<<"#!/bin/bash
		export GMX_MAXBACKUP=-1 COPIES=$memory/copies
		begin=\$EPOCHREALTIME
		srun --gpu-ckpt=store=file:$memory,keep=1 taskset -c 1 bash -c '
			export LD_PRELOAD=$dir/copies.so:\$LD_PRELOAD COPIES_PID=$dir/copies.pid
			$3'
		awk \"BEGIN { print \$EPOCHREALTIME - \$begin }\" >seconds")
	bench_ready "$job"
	wait_for 30 test -s "$dir/copies.pid" || give_up "job $job has not begun"
	for ((i = 0; i < $2; i++)); do
		sleep 4
		case $1 in
		copy) copies_signal "$job" RTMIN ;;
		fork) copies_signal "$job" RTMIN+1 ;;
		taken) alice gpuckpt create "$job" ;;
		esac >&2
	done
	wait_job "$job" COMPLETED 300 >&2
	root rm -rf "$memory/copies" "$memory/lab/$job"
	cat "$dir/seconds"
}

copies_signal()
{
	local node
	node=$(job_nodes "$1")
	root -n "${node#n}" kill -s "$2" "$(cat "$dir/copies.pid")"
}
