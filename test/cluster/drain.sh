#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scontrol update nodename=… state=drain under running jobs: a job under gpuckpt is checkpointed and
# requeued, and gives the same answer; another job runs on to its end; then the node is empty.
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
check "the step runs under gpuckpt" wait_ready "$job"
node=$(job_nodes "$job" | tail -n 1)
plain=$(submit "$dir" -N1 -n1 -w "$node" -o plain <<-END
	#!/bin/bash
	srun bash -c 'until [[ -e more ]]; do sleep 0.1; done'
END
)
check "a job without --gpu-ckpt runs there, too" wait_job "$plain" RUNNING 30
stays=$(submit "$dir" -N1 -n1 -w "$node" -o stays --export="ALL,BURN_UNTIL=/never" <<-END
	#!/bin/bash
	srun --gpu-ckpt $burn 16 400 50
END
)
check "a job whose checkpoints are disabled does, too" wait_ready "$stays"
alice gpuckpt disable "$stays"
root scontrol update nodename="$node" state=drain reason=test
check "the job is requeued and started again; its user does nothing" \
	wait_for 60 job_restarted "$job" 1
unlike "$(job_nodes "$job" | xargs)" "$node" "it runs on other nodes"
# tells TEXT...: the output of the job that stays has it
tells() { grep -q "^gpuckpt: job $stays stays on its nodes, which it must leave $*" "$dir/stays"; }
check "the output of a job that cannot leave the node says why" wait_for 30 \
	tells "(node $node is draining: test): checkpoints of .* are disabled; enable them"
end_job "$stays"
check "a commit was made" test -n "$(newest_commit "$job")"
is "$(job_state "$plain")" RUNNING "the job without --gpu-ckpt runs on"
alice touch "$dir/more"
check "it runs to its end" wait_job "$plain" COMPLETED 40
is "$(job_restarts "$plain")" 0 "it was not requeued"
drained() { [[ $(root sinfo -h -n "$node" -o %T) = drained ]]; }
empty() { ! root -n "${node#n}" pgrep -u alice; }
check "the node is drained" wait_for 30 drained
check "no process of alice's is left there" wait_for 30 empty
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
is "$(job_restarts "$job")" 1 "it was requeued once"
check "the answer of rank 0 is right" cmp "$dir/want" "$dir/rank0"
check "the answer of rank 1 is right" cmp "$dir/want" "$dir/rank1"

nodes_back
finish
