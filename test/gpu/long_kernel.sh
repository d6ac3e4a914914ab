#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A kernel of five minutes (GPUCKPT_SECONDS) is checkpointed in its middle when its node is drained,
# and goes on on another node. `able` names one without points. Runs by `test/gpu/slurm run FILE
# gpu/long_kernel`, which makes both programs.
# shellcheck source=../cluster/lib.sh
. "$(dirname "$(readlink -f "$0")")/../cluster/lib.sh"
built=${GPUCKPT_CUDA_PROGRAMS-}
[[ -x $built/long_kernel ]] ||
	{ echo "1..0 # SKIP no long_kernel in GPUCKPT_CUDA_PROGRAMS"; exit 0; }
seconds=${GPUCKPT_SECONDS-300}
bin=$GPUCKPT_LAB/work/long
mkdir -p "$bin"
cp "$built"/long_kernel{,_plain} "$bin"

# run_kernel DIR PROGRAM SECONDS
run_kernel()
{
	submit "$1" -N1 -n1 <<-END
		#!/bin/bash
		export LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}
		srun --gpu-ckpt $bin/$2 $3 >>answer
	END
}
begun() { grep -q '^begun' "$1/out"; }
has_run() { ((SECONDS - begin >= $1)); } # seconds
names_kernel()
{
	alice gpuckpt able -v "$1" 2>&1 |
		grep 'kernel [^ ]*rounds[^ ]* *it was launched at least [0-9]* s ago'
}

dir=$(work_dir)
job=$(run_kernel "$dir" long_kernel "$seconds")
check "the kernel runs" wait_for 60 begun "$dir"
begin=$SECONDS

other=$(work_dir)
plain=$(run_kernel "$other" long_kernel_plain 12)
check "a kernel without points runs beside it" wait_for 60 begun "$other"
check "able names it" wait_for 10 names_kernel "$plain"
diag "$(names_kernel "$plain")"
check "it ends, unharmed" wait_job "$plain" COMPLETED 60
is "$(cat "$other/answer")" right "its answer"

check "able: the kernel with points does not stand in the way" wait_ready "$job"
commit=$(alice gpuckpt create --json "$job")
report $? "create, in the middle of the kernel" || diag "$commit"
diag "it was stopped for $(jq '.steps[0].stall_ms' <<<"$commit") ms"
node=$(job_nodes "$job")
wait_for "$seconds" has_run $((seconds / 3))
root scontrol update nodename="$node" state=drain reason=test
check "its node is drained: the job starts again" wait_for 60 job_restarted "$job" 1
unlike "$(job_nodes "$job")" "$node" "on another node"
check "a commit was made for that" test "$(newest_commit "$job")" -ge 2
check "it can be checkpointed there" wait_ready "$job"
check "create, in the middle of the kernel on the other node" alice gpuckpt create "$job"
check "the job ends" wait_job "$job" COMPLETED "$seconds"
is "$(cat "$dir/answer")" right "with the right answer"
is "$(grep -c '^begun' "$dir/out")" 1 "the kernel was begun once"
diag "the kernel took $((SECONDS - begin)) s with the restart"
((failures == 0)) || diag "$(tail -n 20 "$dir/out" "$other/out")"
nodes_back
finish
