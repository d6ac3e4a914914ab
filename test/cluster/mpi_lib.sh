# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests of MPI programs on two nodes: jobs that come again elsewhere, with their ranks spread
# otherwise.
: "${test_dir:?}"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }

# mpi_job DIR RANKS OPTIONS SRUN-ARGS...: answers in DIR/answers, progress in DIR/out
mpi_job()
{
	local dir=$1 ranks=$2 options=$3
	shift 3
	submit "$dir" -N2 -n"$ranks" <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=pt2pt # windows over TCP
		spread=block
		[[ -z \${SLURM_RESTART_COUNT-} ]] || spread=cyclic
		srun --distribution=\$spread --gpu-ckpt$options $* >>$dir/answers
	END
}

answers() { sort "$1/answers"; }
reached() { [[ $(sed -n 's/^step //p' "$1/out" | tail -n 1) -ge $2 ]]; }
