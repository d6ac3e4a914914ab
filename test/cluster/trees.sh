#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that are several processes: a script without exec, which starts one program after the other,
# each beside tee; and a Python program with a pool of processes and memory that they share. Their
# jobs are requeued twice, and they go on where they were.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)

# requeue_twice JOB DIR: checkpoint and requeue it, have it restarted, again, and let it end
requeue_twice()
{
	check "able: it can be checkpointed" wait_for 30 alice gpuckpt able "$1"
	check "create" alice gpuckpt create "$1"
	check "a second one" alice gpuckpt create "$1"
	check "requeue" alice gpuckpt requeue "$1"
	check "the job is started again" wait_for 60 job_restarted "$1" 1
	check "it can be checkpointed again" wait_ready "$1" 60
	check "create, after a restart" alice gpuckpt create "$1"
	check "requeue, once more" alice gpuckpt requeue "$1"
	check "the job is started again" wait_for 60 job_restarted "$1" 2
	alice touch "$2/enough"
	check "the job ends" wait_job "$1" COMPLETED 120
}

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
requeue_twice "$job" "$dir"
check "the answers are right, and each is there once" cmp "$dir/want" "$dir/answers"
is "$(wc -l <"$dir/rounds")" 3 "the script began each round once"

pool=("/usr/bin/python3" "$top/test/programs/pool.py" 100)
dir=$(work_dir)
"${pool[@]}" "$dir/want"
job=$(submit "$dir" -N1 -n1 --export="ALL,POOL_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt ${pool[*]} answers
	END
)
check "the step runs" wait_ready "$job"
has_begun() { [[ $(wc -l <"$dir/answers") -ge 2 ]]; }
check "all its processes work" wait_for 30 has_begun
requeue_twice "$job" "$dir"
check "its answers are right" cmp "$dir/want" "$dir/answers"
finish
