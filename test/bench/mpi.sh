# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The benchmarks of MPI, for run. Four ranks at rest sleep, so that two cores are enough.
: "${bench_dir:?}" "${dir:?}" "${home:?}"

# From the first round's start until MPI is at rest in four ranks on two nodes.
bench_mpi_quiesce()
{
	rest_quiesce idle 0 20
	rest_quiesce flooded 1000 150
}

# rest_quiesce NAME MESSAGES LIMIT: each checkpoint finds messages that none has found before
rest_quiesce()
{
	local i job count=${QUIESCE_COUNT-10} dir=$dir/$1
	rest_dir "$dir"
	job=$(rest_submit "$dir" "$2")
	bench_ready "$job"
	for ((i = 0; i < count; i++)); do
		wait_for 30 grep -qx "flooded $i" "$dir/out" || give_up "no messages: $(tail -n 3 "$dir/out")"
		sleep 0.3
		alice gpuckpt create "$job" --json | jq -r '.steps[0].quiesce_ms' >>"$dir/quiesces" ||
			give_up "create failed"
		touch "$dir/go.$i"
	done
	wait_for 30 grep -qx "flooded $i" "$dir/out" || give_up "messages were lost: $(tail -n 3 "$dir/out")"
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
	[[ -x $rest ]] || mpicc -O2 -o "$rest" "$bench_dir/mpi_rest.c" || give_up "mpi_rest cannot be built"
}

rest_submit()
{
	submit "$1" -N2 -n4 <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		srun --mpi=pmix --gpu-ckpt $rest $2
	END
}
