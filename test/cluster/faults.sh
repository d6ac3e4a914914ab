#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What must survive: rank, agent, coordinator, slurmstepd and node killed while idle, while writing
# and between commit and restart; a full store; damage. After each the answer is right, or the job
# waits with a reason.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
top_dir=$(work_dir)
burns="48 500 50 1 100 56"       # 25 s at least; memory that compression is tried on
slow=compress=zstd:16,cpus=1     # makes a write of the image last seconds
# shellcheck disable=SC2086 # words
burn_answers $burns >"$top_dir/want"

# begin NAME [OPTION-VALUE] [SBATCH-OPTIONS...]: a job of two ranks on two nodes; sets $job, $dir
begin()
{
	name=$1
	dir=$top_dir/${1//[^a-z]/-} # goes into --export=
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	local option=--gpu-ckpt${2:+=$2}
	job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" "${@:3}" <<-END
		#!/bin/bash
		srun $option bash -c 'exec $burn $burns >rank\$SLURM_PROCID'
	END
	)
	wait_ready "$job" || report 1 "$name: the step comes under gpuckpt's care"
	wait_for 30 have_said "$dir"/rank{0,1} || report 1 "$name: the ranks have their memory"
	node=$(job_nodes "$job" | head -n 1)
	other=$(job_nodes "$job" | tail -n 1)
}

# on NODE CMD...
on() { root -n "${1#n}" "${@:2}"; }

create() { check "$name: create" alice gpuckpt create "$job"; }

# create_slowly: begin a create and return while the image is being written
create_slowly()
{
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	wait_for 20 writing || diag "$name: no write was seen: $(query "$job" .)"
}
writing() { [[ $(query "$job" .checkpoint.phase) = write ]]; }

answers()
{
	alice touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED "${1-120}"
	check "$name: rank 0 has the right answer" cmp "$top_dir/want" "$dir/rank0"
	check "$name: rank 1 has the right answer" cmp "$top_dir/want" "$dir/rank1"
}

# In $dir the answers of $1 restarts are expected.
restarted() { check "$name: the job is started again" wait_for 100 job_restarted "$job" "${1-1}"; }

rank_killed()
{
	begin "rank killed while idle"
	create
	on "$other" pkill -KILL -x burn
	root scontrol requeue "$job"
	restarted
	answers

	begin "rank killed while writing" "$slow"
	create_slowly
	on "$other" pkill -KILL -x burn
	wait "$creating"
	diag "create gave $?: $(cat "$dir/create")"
	root scontrol requeue "$job"
	restarted
	# Either this checkpoint was finished from the clones, or the job starts from the beginning.
	answers
}

agent_killed()
{
	begin "agent's worker killed while idle"
	on "$node" pkill -KILL --newest -x gpuckpt-agent
	check "$name: it comes back" wait_ready "$job" 20
	create
	answers

	begin "whole agent killed while idle" timeout=5s
	on "$node" pkill -KILL -x gpuckpt-agent
	check_not "$name: create is refused" timeout 100 "$cluster" exec -u alice gpuckpt create "$job"
	answers

	begin "agent killed while writing" "$slow,timeout=15s" # in which the agent might come back
	create_slowly
	on "$node" pkill -KILL -x gpuckpt-agent
	wait "$creating"
	report $((! $?)) "$name: create tells that it failed" || cat "$dir/create"
	answers
}

coordinator_killed()
{
	begin "coordinator killed while idle"
	"$cluster" kill gpuckptd
	sleep 4 # the agents try again 3 s after their last try
	"$cluster" start gpuckptd
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	is "$(query "$job" '.state != "not running" and (.nodes | map(.connected) == [true, true])')" true \
		"$name: who asks at once is shown that the step runs, and all its nodes"
	wait "$creating"
	report $? "$name: and a checkpoint that is asked for at once is taken" || cat "$dir/create"
	like "$(alice gpuckpt create $((job + 1000)) 2>&1)" "no step runs or ran with --gpu-ckpt" \
		"$name: a job that never ran so is not known"
	answers

	begin "coordinator away for longer than SlurmdTimeout"
	"$cluster" kill gpuckptd
	sleep 10 # twice that
	unlike "$(cat "$dir/out")" "cut off" "$name: Slurm is there, and nobody is stopped"
	"$cluster" kill slurmctld
	check "$name: Slurm is away as well, and the ranks are stopped" wait_for 30 both_stopped
	check "$name: which is told" wait_for 10 told
	"$cluster" start slurmctld
	check "$name: they go on when it is back" wait_for 60 both_run
	"$cluster" start gpuckptd
	check "$name: and with gpuckptd they can be checkpointed" wait_ready "$job"
	create
	answers

	begin "coordinator killed while writing" "$slow,timeout=6m"
	create_slowly
	"$cluster" kill gpuckptd
	wait "$creating"
	"$cluster" start gpuckptd
	create
	root scontrol requeue "$job"
	restarted
	answers

	begin "coordinator away at a restart"
	create
	root scontrol requeue "$job"
	"$cluster" kill gpuckptd
	restarted
	sleep 3
	check_not "$name: no cold start" test -e "$dir/rank0" -a "$(head -c 1 "$dir/rank0" | wc -c)" = 0
	"$cluster" start gpuckptd
	check "$name: it goes on when the coordinator is back" wait_ready "$job" 60
	answers

	begin "coordinator away for good" restart-wait=5s
	create
	root scontrol requeue "$job"
	"$cluster" kill gpuckptd
	check "$name: the job waits, held, with a reason" wait_for 90 held
	diag "$(root squeue -h -j "$job" -o '%T %r'): $(root scontrol show job "$job" | grep -i reason)"
	"$cluster" start gpuckptd
	root scontrol release "$job"
	restarted 2
	answers

	begin "coordinator's journal lost before a restart"
	create
	"$cluster" kill gpuckptd
	rm -rf "${GPUCKPT_LAB:?}"/gpuckptd/*
	root scontrol requeue "$job"
	restarted
	"$cluster" start gpuckptd
	check "$name: it goes on from what the store holds" wait_ready "$job" 60
	check "$name: from commit 1" grep -q "step $job.0: commit 1 is taken over" "$GPUCKPT_LAB/log/gpuckptd.out"
	answers
}
told() { grep -q "node n. seems to be cut off" "$dir/out"; }
both_stopped() { stopped "$node" && stopped "$other"; }
both_run() { ! stopped "$node" && ! stopped "$other"; }
held() { [[ $(root squeue -h -j "$job" -o '%T %r') =~ (held|Held|HOLD) ]]; }

slurmstepd_killed()
{
	begin "slurmstepd killed while idle"
	create
	on "$other" pkill -KILL -f "slurmstepd: \[$job\.0\]"
	check "$name: its ranks do not run on as orphans" wait_for 30 gone
	root scontrol requeue "$job"
	restarted
	answers
}

node_killed()
{
	begin "node killed while idle"
	create
	# Slurm finds out by itself, here and where a node is cut off; elsewhere it is told (node_dies).
	"$cluster" node-kill "${node#n}"
	restarted
	answers
	nodes_back

	begin "node killed while writing" "$slow,timeout=6m"
	create
	create_slowly
	node_dies "${other#n}"
	wait "$creating"
	restarted
	answers
	nodes_back

	begin "node killed between commit and restart"
	check "$name: gpuckpt requeue" alice gpuckpt requeue "$job"
	node_dies "${node#n}"
	restarted
	answers 150
	nodes_back

	slurmd_timeout 40 # a connection without an answer ends after 18 s
	begin "node cut off"
	create
	"$cluster" cut "${other#n}"
	check "$name: its ranks are stopped there" wait_for 60 stopped "$other"
	check_not "$name: before the job is started again" job_restarted "$job" 1
	restarted
	check "$name: and still are when it is" stopped "$other"
	"$cluster" mend "${other#n}"
	slurmd_timeout 5 # its reconfigure makes slurmd register; slurmctld asks a node that is down in 20 rounds of pings once
	check "$name: they end once Slurm reaches it" wait_for 60 gone
	answers
	nodes_back
}
gone() { ! on "$other" pgrep -x burn; }
stopped() { [[ $(on "$1" ps -o stat= -C burn) = t* ]]; }

# slurmd_timeout SECONDS: after which Slurm takes a silent node for down. gpuckptd asks for it when it starts.
slurmd_timeout()
{
	sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" "$GPUCKPT_LAB/etc/slurm.conf"
	root scontrol reconfigure
	"$cluster" kill gpuckptd
	"$cluster" start gpuckptd
}

store_full()
{
	begin "store full" "store=file:$GPUCKPT_LAB/small"
	check_not "$name: create fails" alice gpuckpt create "$job"
	like "$(alice gpuckpt create "$job" 2>&1)" 'pace|full|make room' "$name: the reason is named"
	check "$name: nothing is left in the store" test -z "$(find "$GPUCKPT_LAB/small" -type f -size +64k)"
	answers
}

# damage NAME FIND-PATTERN: one byte in the middle of the newest file that matches
damage()
{
	local file
	begin "$1"
	create
	create
	file=$(find "$GPUCKPT_LAB/store/lab/$job" -path "$2" -type f -printf '%T@ %p\n' | sort -n | tail -n 1)
	file=${file#* }
	[[ -n $file ]] || { report 1 "$name: nothing matches $2"; end_job "$job"; return; }
	flip "$file"
	check_not "$name: verify finds it" alice gpuckpt verify "$job"
	root scontrol requeue "$job"
	restarted
	check "$name: the ranks run again" wait_ready "$job" 60
	is "$(query "$job" .restored)" 1 "$name: from the commit before"
	check "$name: the coordinator's log says so" \
		grep -q "step $job.0: all ranks fall back to commit 1" "$GPUCKPT_LAB/log/gpuckptd.out"
	answers
}

flip()
{
	local at=$(($(stat -c %s "$1") / 2)) byte
	byte=$(od -An -tu1 -j "$at" -N1 "$1")
	# shellcheck disable=SC2059 # the format is the byte
	printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

damaged()
{
	damage "damaged object" '*/2-*/*[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
	damage "damaged manifest" '*/2-*/rank-1.json'
	damage "damaged commit" '*/commit-2.json'

	begin "every commit damaged"
	create
	flip "$(find "$GPUCKPT_LAB/store/lab/$job" -name commit-1.json)"
	root scontrol requeue "$job"
	stopped() { held || [[ $(job_state "$job") =~ FAILED|COMPLETED ]]; }
	check "$name: the job does not start over good work" wait_for 60 stopped
	check_not "$name: the job does not pretend to be done" job_is "$job" COMPLETED
	diag "$(root squeue -h -t all -j "$job" -o '%T %r') $(tail -n 3 "$dir/out")"
	end_job "$job"
}

[[ $# -gt 0 ]] || set -- rank_killed agent_killed coordinator_killed slurmstepd_killed node_killed \
	store_full damaged
for fault; do
	$fault
done
finish
