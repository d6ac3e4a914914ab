#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank that is a script without exec: it starts one program after the other, each beside tee. Its
# job is requeued twice, and the script goes on where it was.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
args=(16 200 50)
burn_answers "${args[@]}" >"$dir/one"
cat "$dir/one" "$dir/one" "$dir/one" >"$dir/want"

job=$(submit "$dir" -N1 -n1 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'for i in 1 2 3; do
		echo "round \$i" >>rounds
		$burn ${args[*]} | tee -a answers
	done'
	END
)
check "the step runs" wait_ready "$job"
has_child() { [[ -s $dir/rounds ]] && pgrep -x tee >/dev/null; }
check "its script has started a program" wait_for 30 has_child
check "able: the script can be checkpointed" wait_for 30 alice gpuckpt able "$job"
check "create" alice gpuckpt create "$job"
check "a second one" alice gpuckpt create "$job"
check "requeue" alice gpuckpt requeue "$job"
check "the job is started again" wait_for 60 job_restarted "$job" 1
check "it can be checkpointed again" wait_ready "$job" 60
check "create, after a restart" alice gpuckpt create "$job"
check "requeue, once more" alice gpuckpt requeue "$job"
check "the job is started again" wait_for 60 job_restarted "$job" 2
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 120
check "the answers are right, and each is there once" cmp "$dir/want" "$dir/answers"
is "$(wc -l <"$dir/rounds")" 3 "the script began each round once"
finish
