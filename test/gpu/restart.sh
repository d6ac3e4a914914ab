#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How long a restart of PyTorch takes, with 1 and 16 GiB (GPUCKPT_GIB) of data on the GPU and their
# image in memory: from the start of the new process until its first kernel has run. From both
# follows how fast the data come. The job is requeued: after the death of a node it would also wait
# until that one has stopped its ranks. GPUCKPT_RESTART_CUDA: the engine, `auto` unless set. Runs by
# `test/gpu/slurm run FILE gpu/restart`.
# shellcheck source=../bench/lib.sh
. "$(dirname "$(readlink -f "$0")")/../bench/lib.sh"
python=$(command -v python3)
"$python" -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null ||
	{ echo "1..0 # SKIP no PyTorch, or no GPU"; exit 0; }
program=$GPUCKPT_LAB/work/restart.py
cp "$top/test/gpu/restart.py" "$program"
read -ra sizes <<<"${GPUCKPT_GIB-1 16}"
declare -A took

# start DIR GIB
start()
{
	local keys=store=file:$GPUCKPT_LAB/memory,compress=none,cuda=${GPUCKPT_RESTART_CUDA-auto}
	submit "$1" -N1 -n1 <<-END
		#!/bin/bash
		export LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}
		srun --gpu-ckpt=$keys $python $program $2 $1 >>answer
	END
}
says() { grep -q "^$1" "$dir/answer"; }

# between FIRST THEN: the seconds between the coordinator's last messages of the step with these
# words: of the restore of host memory, and then of CUDA and the device's data
between()
{
	calc "$(logged "$2") - $(logged "$1")"
}
logged()
{
	date +%s.%3N -d "$(grep "step $job\.0$1" "$GPUCKPT_LAB/log/gpuckptd.out" | tail -n 1 |
		cut -d ' ' -f 1)"
}

for gib in "${sizes[@]}"; do
	dir=$(work_dir)
	job=$(start "$dir" "$gib")
	check "$gib GiB: the data are there" wait_for 60 test -e "$dir/started"
	check "$gib GiB: able" wait_ready "$job" ||
		diag "$(alice gpuckpt able "$job" 2>&1 | head -n 20)"
	commit=$(alice gpuckpt create --json "$job")
	report $? "$gib GiB: create" || diag "$commit"
	figure "restart_${gib}_gib_stop" "$(jq '.steps[0].stall_ms' <<<"$commit")" ms
	figure "restart_${gib}_gib_write" "$(jq '.steps[0].write_s' <<<"$commit")" s
	root scontrol requeue "$job"
	check "$gib GiB: it is requeued: the job starts again" wait_for 60 job_restarted "$job" 1
	check "$gib GiB: it goes on, with its data" wait_for 60 says "data right" ||
		diag "$(tail -n 20 "$dir/out" "$dir/answer")"
	took[$gib]=$(sed -n 's/^first kernel after \(.*\) s$/\1/p' "$dir/answer")
	figure "restart_${gib}_gib" "${took[$gib]}" s
	figure "restart_${gib}_gib_build" "$(between " is restored" ": its ranks are built")" s
	figure "restart_${gib}_gib_cuda" "$(between ": its ranks are built" " runs again")" s
	alice touch "$dir/stop"
	check "$gib GiB: the job ends" wait_job "$job" COMPLETED 60
done
least=${sizes[0]} most=${sizes[-1]}
[[ $least = "$most" || ! ${took[$most]} || ! ${took[$least]} ]] || figure restart_rate "$(calc \
	"($most - $least) * 1.073741824 / (${took[$most]} - ${took[$least]})")" GB/s
finish
