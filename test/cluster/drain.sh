#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scontrol update nodename=… state=drain under running jobs: one under gpuckpt's care is checkpointed, requeued
# and comes to the same answer; one that is not runs on; then the node is empty.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
burn_answers 16 400 50 >"$dir/want"
job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn 16 400 50 >rank\$SLURM_PROCID'
END
)
check "the step comes under gpuckpt's care" wait_ready "$job"
node=$(job_nodes "$job" | tail -n 1)
plain=$(submit "$dir" -N1 -n1 -w "$node" -o plain <<<$'#!/bin/bash\nsrun bash -c "until [[ -e more ]]; do sleep 0.1; done"')
check "a job without the option runs there, too" wait_job "$plain" RUNNING 30
root scontrol update nodename="$node" state=drain reason=test
check "the job is requeued and started again without a word to its user" \
	wait_for 60 job_restarted "$job" 1
unlike "$(job_nodes "$job" | xargs)" "$node" "it runs on other nodes"
check "a commit was made" test -n "$(newest_commit "$job")"
is "$(job_state "$plain")" RUNNING "the job without the option runs on"
alice touch "$dir/more"
check "to its end" wait_job "$plain" COMPLETED 40
is "$(job_restarts "$plain")" 0 "and is not requeued"
drained() { [[ $(root sinfo -h -n "$node" -o %T) = drained ]] && ! root -n "${node#n}" pgrep -u alice; }
check "the node is drained and empty" wait_for 30 drained
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
is "$(job_restarts "$job")" 1 "it was requeued once"
check "the answer of rank 0 is right" cmp "$dir/want" "$dir/rank0"
check "the answer of rank 1 is right" cmp "$dir/want" "$dir/rank1"

nodes_back
finish
