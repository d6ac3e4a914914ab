#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every verb on a running step: what it prints, its exit status, and the job's answer at the end.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
args=(64 400 50 0.02 20)
burn_answers "${args[@]}" >"$dir/want"

job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'until test -e $dir/script; do sleep 0.1; done
		(until test -e $dir/alone; do sleep 0.1; done &)
		exec $burn ${args[*]} >rank\$SLURM_PROCID'
	echo "after srun"
	END
)
# While the ranks are a shell, its commands are children.
check "able: a script whose program is a child" wait_for 30 alice gpuckpt able "$job"
touch "$dir/script"
# The parent of each rank's loop has ended.
check "the step runs under gpuckpt" wait_ready "$job"
check "able: it has descendants whose parents have ended" wait_for 30 alice gpuckpt able "$job"
touch "$dir/alone"
check "its ranks have their memory" wait_for 30 have_said "$dir"/rank{0,1}

node=$(job_nodes "$job" | head -n 1)
# shellcheck disable=SC2016 # expanded there
environment=$("$cluster" exec -n "${node#n}" \
	bash -c 'tr "\0" "\n" </proc/$(pgrep -o -x gpuckpt-agent)/environ')
like "$environment" "PATH=$(dirname "$(command -v scontrol)"):" \
	"its agents look for Slurm's commands in slurmstepd's directory"

is "$(alice gpuckpt able "$job" --json | jq '.steps[0].able')" true \
	"able: the step can be checkpointed"

alice gpuckpt create "$job" --json >"$dir/create1" 2>"$dir/err"
report $? "create" || diag "$(cat "$dir/err")"
is "$(jq -r '.steps[0].seq' "$dir/create1")" 1 "create: the first commit has number 1"
like "$(jq -r '.steps[0].stall_ms' "$dir/create1")" '^[0-9.]+$' "create: reports the stall"
check "create: two ranks of 64 MiB are in the image" \
	test "$(jq '.steps[0].put' "$dir/create1")" -gt $((2 * 64 * 1048576))
alice gpuckpt create "$job" --json >"$dir/create2"
first=$(jq '.steps[0].stored' "$dir/create1")
check "create: a second checkpoint stores less than half of the first" \
	test "$(jq '.steps[0].stored' "$dir/create2")" -lt $((first / 2))
check "create: without --json it prints a line" grep -q '3' <(alice gpuckpt create "$job")

is "$(commits "$job" | xargs)" "2 3" "list: keep=2 leaves the two newest"
check "list: a table without --json" grep -q "$job" <(alice gpuckpt list)
is "$(alice gpuckpt show "$job.0" 3 --json | jq -r '.commits[].seq')" 3 "show: one commit"
check "status: a table without --json" grep -q "$job" <(alice gpuckpt status)
is "$(query "$job" .state)" running "status: the state of the step"
check "verify" alice gpuckpt verify "$job"
check "remove: the older commit" alice gpuckpt remove "$job.0" 2
is "$(commits "$job" | xargs)" 3 "remove: it is gone from the list"
check_not "show: a commit that is gone" alice gpuckpt show "$job.0" 2
check_not "remove: the newest commit, which a restart needs" alice gpuckpt remove "$job.0" 3

root scontrol suspend "$job"
suspended="job $job is suspended"
like "$(alice gpuckpt create "$job" 2>&1)" "$suspended: .scontrol resume $job. lets it run" \
	"create: says that the job is suspended, and what to do"
like "$(alice gpuckpt able "$job" 2>&1)" "it is suspended; scontrol resume $job" \
	"able: says so, too"
root scontrol resume "$job"
check "able: a resumed job" wait_for 20 alice gpuckpt able "$job"

check "disable" alice gpuckpt disable "$job"
check_not "create is refused while disabled" alice gpuckpt create "$job"
check "enable" alice gpuckpt enable "$job"
check "create after enable" alice gpuckpt create "$job"

check "requeue" alice gpuckpt requeue "$job"
check "requeue: Slurm starts the job again" wait_for 40 job_restarted "$job" 1
check "requeue: the ranks run again" wait_ready "$job" 60
restored="^gpuckpt: step $job.0 is restored from checkpoint $(newest_commit "$job") of [0-9:]*"
restored+=", on $node and 1 more$"
check "requeue: the job's output says from which checkpoint" wait_for 10 grep -q "$restored" \
	"$dir/out"
alice gpuckpt watch "$job" >"$dir/watched" 2>&1 &
watching=$!
wait_for 20 grep -q running "$dir/watched"
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 120
check "the answer of rank 0 is that of an uninterrupted run" cmp "$dir/want" "$dir/rank0"
check "the answer of rank 1 is that of an uninterrupted run" cmp "$dir/want" "$dir/rank1"
wait "$watching"
report $? "watch ends when the step has" || diag "$(cat "$dir/watched")"
check "watch has seen it run" grep -q "running" "$dir/watched"
is "$(grep -c "after srun" "$dir/out")" 1 "requeue: no line after srun ran before the restart"

check_not "with --open-mode=append there is no warning" grep -q "empties its output" "$dir/out"
job=$(submit "$dir" -N1 -n1 --no-requeue --open-mode=truncate <<-END
	#!/bin/bash
	srun --gpu-ckpt $burn 16 10000 50
	echo "srun gave \$?"
	END
)
check "vacate: the step runs under gpuckpt" wait_ready "$job"
check "a job whose output a requeue would empty says so" wait_for 10 \
	grep -q "^gpuckpt: if this job is requeued, Slurm empties its output file" "$dir/out"
check "a job with --no-requeue says so" wait_for 10 \
	grep -q "^gpuckpt: job $job was submitted with --no-requeue" "$dir/out"
check "vacate" alice gpuckpt vacate "$job"
check "vacate: the script goes on, the job ends" wait_job "$job" COMPLETED 20
check "vacate: srun's status is not 0" grep -q 'srun gave [1-9]' "$dir/out"
check "vacate: the commit stays" test -n "$(commits "$job")"

array=$(submit "$dir" -n1 --array=1-2 <<-END
	#!/bin/bash
	exec srun --gpu-ckpt $burn 16 10000 50
	END
)
tasks_able() { [[ $(alice gpuckpt able "$array" --noheader 2>"$dir/err" | grep -c yes) -eq 2 ]]; }
check "an array's number means all its tasks" wait_for 30 tasks_able || diag "$(cat "$dir/err")"
is "$(alice gpuckpt create "$array" --noheader 2>&1 | wc -l)" 2 "create: all tasks of an array"
is "$(alice gpuckpt list "${array}_2" --json | jq -r '.steps[].array_task')" "${array}_2" \
	"list: one task of an array"
check "create by root" root gpuckpt create "${array}_1"
like "$(alice gpuckpt list "${array}_[1]" -u alice)" "alice .* create by root" \
	"list: users by name"
is "$(alice gpuckpt list -u bob --noheader)" "" "list: the steps of another user"
alice scancel "$array"

finish
