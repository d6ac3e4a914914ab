#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank leaves the first fence of MPI_Init seconds after the ranks of the other node: at the start
# and at a restart no rank may send to it before it has left MPI_Init.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=mpi_lib.sh
. "$test_dir/mpi_lib.sh"

pmix=$(ldconfig -p | awk '$1 == "libpmix.so.2" { print $NF; exit }')
[[ $pmix ]] || { echo "1..0 # SKIP no libpmix.so.2"; exit 0; }
ring=$(CC=mpicc program ring)

# late.c is built as libpmix.so.2; it needs the real one, which gets another name here.
late=$GPUCKPT_LAB/work/late
mkdir -p "$late"
LC_ALL=C sed 's/\x00libpmix\.so\.2\x00/\x00libpmix.so.9\x00/' "$pmix" >"$late/libpmix.so.9"
gcc -shared -fPIC -O2 -o "$late/libpmix.so.2" "$top/test/programs/late.c" \
	-Wl,-soname,libpmix.so.2 -Wl,--no-as-needed "$late/libpmix.so.9" ||
	{ echo "Bail out! late cannot be built"; exit 1; }

dir=$(work_dir)
job=$(mpi_job "$dir" 4 "" --mpi=pmix --export="ALL,LD_LIBRARY_PATH=$late,LATE_RANK=3" \
	"$ring" 1000000 2000)
check "the step runs under gpuckpt, with a rank that is late" wait_ready "$job"
check "the ranks talk" wait_for 40 reached "$dir" 100
check "create" alice gpuckpt create "$job"
check "requeue" alice gpuckpt requeue "$job"
check "after the restart, with a late rank again, they go on" \
	wait_for 60 reached "$dir" $(($(progress "$dir") + 100))
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 60
is "$(answers "$dir")" "$(wanted "$dir" 4)" "the answers are those of an uninterrupted run"
is "$(job_restarts "$job")" 1 "after one restart, in one attempt"
unlike "$(cat "$dir/out")" "Segmentation fault" "no rank crashed" || diag "$(cat "$dir/out")"

fence() { alice "$@" -n1 printenv SLURM_PMIX_FENCE || echo "not set"; }
is "$(fence srun --mpi=pmix --gpu-ckpt)" ring "Slurm's PMIx plugin uses its ring for fences"
is "$(fence env SLURM_PMIX_FENCE=tree srun --mpi=pmix --gpu-ckpt)" tree \
	"but the user's choice prevails"
is "$(fence srun --mpi=none --gpu-ckpt)" "not set" "it is not set without PMIx"
is "$(fence srun --mpi=pmix --gpu-ckpt=mpi=none)" "not set" "it is not set with mpi=none"
is "$(fence srun --mpi=pmix)" "not set" "it is not set without --gpu-ckpt"
finish
