# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests of MPI programs on two nodes: jobs whose ranks are spread differently after a
# restart.
: "${test_dir:?}"
need_mpi

# mpi_job DIR RANKS OPTIONS SRUN-ARGS...: prints the job. Its answers go to DIR/answers, its
# progress to DIR/out; a ring ends once DIR/enough exists. OPTIONS are those of --gpu-ckpt.
mpi_job()
{
	local dir=$1 ranks=$2 options=$3
	shift 3
	submit "$dir" -N2 -n"$ranks" <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=pt2pt # windows over TCP
		export RING_UNTIL=$dir/enough
		spread=block
		[[ -z \${SLURM_RESTART_COUNT-} ]] || spread=cyclic
		srun --distribution=\$spread --gpu-ckpt${options:+=$options} $* >>$dir/answers
	END
}

answers() { sort "$1/answers"; }
progress() { sed -n 's/^step //p' "$1/out" | tail -n 1; }
reached() { [[ $(progress "$1") -ge $2 ]]; }
computes() { grep -q '^computes$' "$1/out"; }

# wanted DIR RANKS: the answers of an uninterrupted ring of as many steps as the one in DIR made
wanted() { "${ring:?}" want "$2" "$(awk 'NR == 1 { print $NF }' "$1/answers")"; }
