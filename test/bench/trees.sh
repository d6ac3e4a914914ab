# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Trees of processes: their stall, their restart, and what the option costs those who make many.
: "${dir:?}" "${memory:?}" "${bench_dir:?}"

# The stall of eight ranks on two nodes, each with four children, compared with the forks of as many
# processes with as much memory at the same moment; in turns.
bench_tree_stall()
{
	local mib=${TREE_MIB-51} processes=40 job i
	gcc -O2 -o "$dir/tree" "$bench_dir/tree.c"
	job=$(submit "$dir" -N2 -n8 --overcommit <<<"#!/bin/bash
		srun --overcommit --gpu-ckpt=store=file:$memory $dir/tree 5 $mib 0")
	bench_ready "$job"
	wait_for 60 all_begun 8 || give_up "job $job has not begun: $(tail -n 3 "$dir/out")"
	for i in 1 2 3 4 5 6 7; do
		"$dir/tree" $processes "$mib" 0 1 >>"$dir/tree.forks"
		alice gpuckpt create "$job" --json | jq -r '.steps[0].stall_ms' \
			>>"$dir/tree.stalls"
	done
	end_job "$job"
	root rm -r "$memory/lab/$job"
	local stall fork
	stall=$(median <"$dir/tree.stalls") fork=$(median <"$dir/tree.forks")
	figure tree_processes $processes processes
	figure tree_memory "$((mib * processes))" MiB
	figure tree_stall_median "$stall" ms
	figure tree_fork_median "$fork" ms
	at_most "stall of a tree in ms" "$stall" "$(calc "1.5 * $fork + 30")"
}

all_begun() { [[ $(grep -c ready "$dir/out") -ge $1 ]]; }

# make -j2 of a small C project with the option and without, in turns; and the CPU time of a loop of
# /bin/true with and without, at the same time on a core each, which are swapped each time.
bench_tree_forks()
{
	local option=--gpu-ckpt=store=file:$memory pairs=${FORKS_PAIRS-9} i
	small_project 60
	for ((i = 0; i < pairs; i++)); do
		make_run plain ""
		make_run taken "$option"
		calc "100 * ($(cat "$dir/taken.make") / $(cat "$dir/plain.make") - 1)"
		echo
	done >"$dir/slower"
	for ((i = 0; i < pairs; i++)); do
		true_run plain $((i % 2)) "" &
		true_run taken $((1 - i % 2)) "$option"
		wait $!
		calc "$(cat "$dir/taken.true") - $(cat "$dir/plain.true")"
		echo
		cat "$dir/plain.true" >>"$dir/trues"
	done >"$dir/added"
	figure forks_pairs "$pairs" pairs
	figure make_slower "$(median <"$dir/slower")" percent
	figure true_plain "$(median <"$dir/trues")" us
	figure true_added "$(median <"$dir/added")" us
	at_most "make -j2, slower in percent" "$(median <"$dir/slower")" 8
	at_most "CPU time added to a command in us" "$(median <"$dir/added")" 60
}

# small_project FILES: so many C files with their Makefile in $dir/project
small_project()
{
	local i
	mkdir "$dir/project"
	for ((i = 0; i < $1; i++)); do
		printf '#include <%s.h>\n' stdio stdlib string
		echo "int f$i(char *s) { return printf(\"%zu\", strlen(s)) + $i; }"
	done | split -l 4 --additional-suffix=.c - "$dir/project/f"
	cat >"$dir/project/Makefile" <<-'END'
	objects := $(patsubst %.c,%.o,$(wildcard *.c))
	all.a: $(objects); ar rc $@ $^
	END
	chown -R --reference="$dir" "$dir/project"
}

# make_run NAME OPTION: its seconds in $dir/NAME.make
make_run()
{
	local job
	job=$(submit "$dir" -n1 -c2 <<<"#!/bin/bash
		rm -f project/*.[oa]
		srun $2 -c2 bash -c '
			begin=\$EPOCHREALTIME
			make -s -j2 -C project CC=gcc
			awk \"BEGIN { print \$EPOCHREALTIME - \$begin }\" >$1.make'")
	wait_job "$job" COMPLETED 300 >&2
}

# true_run NAME CORE OPTION: the CPU time of a command in us in $dir/NAME.true
true_run()
{
	local job n=${FORKS_COMMANDS-2000}
	job=$(submit "$dir" -n1 <<<"#!/bin/bash
		srun $3 taskset -c $2 bash -c '
			TIMEFORMAT=\"%U %S\"
			{ time for ((i = 0; i < $n; i++)); do /bin/true; done; } 2>$1.times'")
	wait_job "$job" COMPLETED 300 >&2
	awk "{ print 1e6 * (\$1 + \$2) / $n }" "$dir/$1.times" >"$dir/$1.true"
}

# A restart of a tree of 200 processes with memory of their own and memory that they share, compared
# with dd of as many bytes between files in memory.
bench_tree_restart()
{
	local processes=${TREE_PROCESSES-200} own=10 shared=40 mib i job restore dd
	mib=$((processes * own + shared))
	gcc -O2 -o "$dir/tree" "$bench_dir/tree.c"
	root dd if=/dev/urandom of="$memory/from" bs=1M count="$mib" status=none
	job=$(submit "$dir" -n1 <<<"#!/bin/bash
		srun --gpu-ckpt=store=file:$memory,keep=1,hold=60s \
			$dir/tree $processes $own $shared")
	bench_ready "$job"
	wait_for 60 all_begun 1 || give_up "job $job has not begun: $(tail -n 3 "$dir/out")"
	for i in 1 2 3; do
		alice gpuckpt create "$job" >&2 || give_up "no checkpoint of job $job"
		root scontrol requeue "$job" >&2
		wait_for 60 job_restarted "$job" "$i"
		bench_ready "$job"
		restore_seconds "$job" >>"$dir/tree.restores"
		calc "$mib / $(dd_rate "$mib")" >>"$dir/tree.dds"
		echo | tee -a "$dir/tree.restores" >>"$dir/tree.dds"
	done
	end_job "$job"
	root rm -r "$memory/from" "$memory/lab/$job"
	restore=$(median <"$dir/tree.restores") dd=$(median <"$dir/tree.dds")
	figure tree_restart_processes "$processes" processes
	figure tree_restart_memory "$mib" MiB
	figure tree_restart "$restore" s
	figure tree_restart_dd "$dd" s
	at_most "restart of a tree in s" "$restore" "$(calc "1.5 * $dd + 0.5")"
}
