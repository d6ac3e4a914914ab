#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scontrol update nodename=… state=drain under a running job: checkpoint, requeue, equal, empty.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
"$burn" 16 400 50 >"$dir/want"
job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn 16 400 50 >rank\$SLURM_PROCID'
END
)
check "the step comes under gpuckpt's care" wait_ready "$job"
node=$(job_nodes "$job" | tail -n 1)
root scontrol update nodename="$node" state=drain reason=test
check "the job is requeued and started again without a word to its user" \
	wait_for 60 job_restarted "$job" 1
unlike "$(job_nodes "$job" | xargs)" "$node" "it runs on other nodes"
check "a commit was made" test -n "$(newest_commit "$job")"
drained() { [[ $(root sinfo -h -n "$node" -o %T) = drained ]] && ! root -n "${node#n}" pgrep -u alice; }
check "the node is drained and empty" wait_for 30 drained
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
is "$(job_restarts "$job")" 1 "it was requeued once"
check "the answer of rank 0 is right" cmp "$dir/want" "$dir/rank0"
check "the answer of rank 1 is right" cmp "$dir/want" "$dir/rank1"

# A job without --gpu-ckpt is left alone.
nodes_back
job=$(submit "$dir" -N1 -n1 -w n3 <<<$'#!/bin/bash\nsrun bash -c "until [[ -e more ]]; do sleep 0.2; done"')
wait_job "$job" RUNNING 30
root scontrol update nodename=n3 state=drain reason=test
sleep 5 # gpuckptd has looked at the nodes a few times
alice touch "$dir/more"
check "a job without the option runs on on a draining node" wait_job "$job" COMPLETED 40
is "$(job_restarts "$job")" 0 "and is not requeued"
nodes_back
finish
