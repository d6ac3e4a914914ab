# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The benchmarks of MPI, for run. Four ranks at rest sleep, and LAMMPS has a core for each of two
# ranks, so that two cores are enough.
: "${top:?}" "${test_dir:?}" "${bench_dir:?}" "${dir:?}" "${home:?}"
# shellcheck source=../cluster/lammps.sh
. "$test_dir/lammps.sh"

# The time that the stand-in adds to a call, in pairs with the plain library, without Slurm.
bench_mpi_calls()
{
	local calls
	calls=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		"$bench_dir/mpi_calls.sh" \
		"$(cat "$GPUCKPT_LAB/etc/prefix")/lib/gpuckpt/libgpuckpt-mpi.so" \
		"${CALLS_PAIRS-20}") ||
		give_up "mpi_calls.sh failed"
	echo "$calls"
	at_most "added to a message of 8 bytes in ns" "$(told mpi_send_recv_8B_added)" 60
	at_most "added to a message of 1 MiB in percent" "$(told mpi_send_recv_1MiB_added_share)" 1
	at_most "added to an allreduce in percent" "$(told mpi_allreduce_8B_added_share)" 2
}

# told NAME: a figure of $calls
told() { awk -v name="$1" '$1 == name { print $2 }' <<<"$calls"; }

# From the first round's start until MPI is at rest in four ranks on two nodes.
bench_mpi_quiesce()
{
	rest_quiesce idle 0 20
	rest_quiesce flooded 1000 150
}

# rest_quiesce NAME MESSAGES LIMIT: each checkpoint finds new messages in flight
rest_quiesce()
{
	local i job count=${QUIESCE_COUNT-10} dir=$dir/$1
	rest_dir "$dir"
	job=$(rest_submit "$dir" "$2") || give_up "no job was submitted"
	bench_ready "$job"
	for ((i = 0; i < count; i++)); do
		wait_for 30 grep -qx "flooded $i" "$dir/out" ||
			give_up "no messages: $(tail -n 3 "$dir/out")"
		sleep 0.3
		alice gpuckpt create "$job" --json |
			jq -er '.steps[0] | select(.quiesce_via == "pmix").quiesce_ms' \
				>>"$dir/quiesces" ||
			give_up "create failed, or did not use PMIx"
		touch "$dir/go.$i"
	done
	wait_for 30 grep -qx "flooded $i" "$dir/out" ||
		give_up "messages were lost: $(tail -n 3 "$dir/out")"
	end_job "$job"
	figure "mpi_quiesce_$1_messages" "$2" messages/pair
	figure "mpi_quiesce_$1_median" "$(median <"$dir/quiesces")" ms
	figure "mpi_quiesce_$1_most" "$(sort -g "$dir/quiesces" | tail -n 1)" ms
	at_most "quiesce, $2 messages a pair, in ms" "$(median <"$dir/quiesces")" "$3"
}

rest_dir()
{
	mkdir -p "$1"
	chown --reference="$home" "$1"
	rest=$GPUCKPT_LAB/work/bin/mpi_rest
	mkdir -p "${rest%/*}"
	[[ $rest -nt $bench_dir/mpi_rest.c ]] || mpicc -O2 -o "$rest" "$bench_dir/mpi_rest.c" ||
		give_up "mpi_rest cannot be built"
}

rest_submit()
{
	submit "$1" -N2 -n4 <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		srun --mpi=pmix --gpu-ckpt $rest $2
	END
}

# LAMMPS on a core for each of two ranks, with the option and without in turns.
bench_mpi_overhead()
{
	local i pairs=${LAMMPS_PAIRS-9} lammps_edge=20 steps=${LAMMPS_STEPS-1500} with without
	install -m 644 "$top/contrib/demo.d/melt.in" "$dir"
	for ((i = 0; i < pairs; i++)); do
		if ((i % 2)); then
			with=$(lammps_seconds --gpu-ckpt) || exit 1
			without=$(lammps_seconds "") || exit 1
		else
			without=$(lammps_seconds "") || exit 1
			with=$(lammps_seconds --gpu-ckpt) || exit 1
		fi
		echo "# LAMMPS without $without s, with $with s" >&2
		calc "100 * ($with / $without - 1)" >>"$dir/lammps_overheads"
		echo >>"$dir/lammps_overheads"
	done
	figure mpi_overhead_pairs "$pairs" pairs
	figure mpi_overhead_median "$(median <"$dir/lammps_overheads")" percent
	at_most "LAMMPS's overhead in percent" "$(median <"$dir/lammps_overheads")" 1
}

# lammps_seconds OPTION: the seconds that LAMMPS reports for its loop
lammps_seconds()
{
	local job
	job=$(submit "$dir" -N1 -n2 <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		srun --mpi=pmix $1 bash -c 'exec taskset -c \$SLURM_PROCID \\
			$(lammps_command "$dir" "$steps")'
	END
	)
	wait_job "$job" COMPLETED 300 >&2 || give_up "LAMMPS did not end: $(tail -n 3 "$dir/out")"
	sed -n 's/^Loop time of \([0-9.]*\).*/\1/p' "$dir/log.lammps" | grep . ||
		give_up "LAMMPS did not report the time of its loop"
}

# The time from the release of four restored ranks until MPI is back in all of them, by the
# coordinator's log, compared with the time of MPI_Init in the same job before.
bench_mpi_restart()
{
	local i job dir=$dir/restart init restart
	rest_dir "$dir"
	for ((i = 0; i < ${RESTARTS-5}; i++)); do
		rm -f "$dir/out"
		job=$(rest_submit "$dir" 0) || give_up "no job was submitted"
		bench_ready "$job"
		wait_for 30 grep -q '^flooded' "$dir/out" ||
			give_up "no ranks: $(tail -n 3 "$dir/out")"
		sed -n 's/^init //p' "$dir/out" >>"$dir/inits"
		alice gpuckpt create "$job" >&2 || give_up "create failed"
		root scontrol requeue "$job" >&2
		wait_for 60 job_restarted "$job" 1
		bench_ready "$job"
		calc "$(log_time "step $job.0 runs again") - \
$(log_time "step $job.0: its ranks are built")" \
			>>"$dir/restarts"
		echo >>"$dir/restarts"
		end_job "$job"
	done
	init=$(median <"$dir/inits") restart=$(median <"$dir/restarts")
	figure mpi_restart_ranks 4 ranks
	figure mpi_init_median "$init" s
	figure mpi_restart_median "$restart" s
	at_most "MPI's restart in s, MPI_Init and 0.5 s" "$restart" "$(calc "$init + 0.5")"
}
