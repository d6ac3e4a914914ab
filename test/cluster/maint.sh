#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A MAINT reservation of a node: its steps are checkpointed and their jobs requeued before it
# begins.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
burn_answers 16 400 50 >"$dir/want"
job=$(submit "$dir" -N1 -n1 -t 30 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn 16 400 50 >rank0'
END
)
check "the step runs under gpuckpt" wait_ready "$job"
node=$(job_nodes "$job")
check "the administrator reserves the node for maintenance" root scontrol create reservation \
	ReservationName=service StartTime=now+20seconds Duration=10 Nodes="$node" Users=root \
	Flags=MAINT,IGNORE_JOBS
check "the job is requeued and started again" wait_for 90 job_restarted "$job" 1
unlike "$(job_nodes "$job")" "$node" "it runs on another node"
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
check "the answer is right" cmp "$dir/want" "$dir/rank0"
root scontrol delete ReservationName=service
finish
