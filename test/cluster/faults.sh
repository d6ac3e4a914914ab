#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults that a job survives: rank, agent, coordinator, slurmstepd, slurmd and node killed while
# idle, while an image is written and between commit and restart; a full store; damage; crashes
# after each restart. After each the answer is right, or the job waits with a reason.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
top_dir=$(work_dir)
log=$GPUCKPT_LAB/log/gpuckptd.out
burns="48 500 50 1 100 56"       # 25 s at least; memory that compression is tried on
slow=compress=zstd:16,cpus=1     # writing the image takes seconds
# shellcheck disable=SC2086 # words
burn_answers $burns >"$top_dir/want"

# begin NAME [OPTION-VALUE] [SBATCH-OPTIONS...]: a job of two ranks on two nodes; sets $job, $dir
begin()
{
	name=$1
	dir=$top_dir/${1//[^a-z]/-} # no comma: it is part of --export=
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
	wait_ready "$job" || report 1 "$name: the step runs under gpuckpt"
	wait_for 30 have_said "$dir"/rank{0,1} || report 1 "$name: the ranks have their memory"
	node=$(job_nodes "$job" | head -n 1)
	other=$(job_nodes "$job" | tail -n 1)
}

# on NODE CMD...
on() { root -n "${1#n}" "${@:2}"; }

create() { check "$name: create" alice gpuckpt create "$job"; }

# create_slowly: start a create and return while the image is written
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

# restarted [TIMES]
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
	# The checkpoint was finished from the clones, or the job starts from the beginning.
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
	check_not "$name: create is refused" \
		timeout 100 "$cluster" exec -u alice gpuckpt create "$job"
	answers

	begin "agent killed while writing" "$slow,timeout=15s" # for the agent to come back
	create_slowly
	on "$node" pkill -KILL -x gpuckpt-agent
	wait "$creating"
	report $((! $?)) "$name: create fails" || cat "$dir/create"
	answers
}

agents() { on "$node" pkill "-$1" -x gpuckpt-agent; on "$other" pkill "-$1" -x gpuckpt-agent; }
both_ask() { [[ $(root pgrep -c -u alice -x gpuckpt) -eq 2 ]]; }
# questions: how many requests of alice's processes, the agents among them, slurmctld has answered
questions() { root sdiag | sed -n '/by user/,$s/^[[:space:]]*alice .*count:\([0-9]*\).*/\1/p'; }
have_asked() { [[ $(questions) -ge $1 ]]; }

coordinator_killed()
{
	local before asking
	# The agents are stopped, so that they come back after the requests.
	begin "coordinator killed while idle"
	"$cluster" kill gpuckptd
	agents STOP
	"$cluster" start gpuckptd
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	alice gpuckpt status "$job" --json >"$dir/status" &
	asking=$!
	check "$name: gpuckpt status and create have begun" wait_for 20 both_ask
	agents CONT
	wait "$asking"
	unlike "$(jq -r '.steps[].state' "$dir/status")" "^not running$" \
		"$name: status waits until the agents are back, and shows the step"
	is "$(jq -c '.steps[].nodes | map(.connected)' "$dir/status")" "[true,true]" \
		"$name: status shows that both nodes are connected"
	wait "$creating"
	report $? "$name: create waits too, and succeeds" || diag "$(cat "$dir/create")"
	like "$(alice gpuckpt create $((job + 1000)) 2>&1)" "no step runs or ran with --gpu-ckpt" \
		"$name: create of a job that never ran is refused"
	answers

	begin "coordinator away for longer than SlurmdTimeout"
	"$cluster" kill gpuckptd
	before=$(questions)
	# Each agent asks Slurm again within a third of SlurmdTimeout (5 s) after an answer, with
	# two or three requests: 30 take the agents twice SlurmdTimeout.
	check "$name: both agents ask Slurm again and again" wait_for 40 have_asked $((before + 30))
	unlike "$(cat "$dir/out")" "cut off" "$name: Slurm answers, and no rank is stopped"
	"$cluster" kill slurmctld
	check "$name: slurmctld is away as well: the ranks are stopped" wait_for 30 both_stopped
	check "$name: the job's output has the reason" wait_for 10 told
	"$cluster" start slurmctld
	check "$name: slurmctld is back: the ranks go on" wait_for 60 both_run
	"$cluster" start gpuckptd
	check "$name: gpuckptd is back: they can be checkpointed" wait_ready "$job"
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
	before=$(stat -c %s "$dir/rank0")
	root scontrol requeue "$job"
	"$cluster" kill gpuckptd
	restarted
	check "$name: the agents try to reach it" wait_for 30 agents_alone "$job"
	check "$name: no cold start, which would empty the output" \
		test "$(stat -c %s "$dir/rank0")" -ge "$before"
	"$cluster" start gpuckptd
	check "$name: it goes on when the coordinator is back" wait_ready "$job" 60
	answers

	begin "coordinator away for good" restart-wait=5s
	create
	root scontrol requeue "$job"
	"$cluster" kill gpuckptd
	check "$name: the job waits, held, with a reason" wait_for 90 held
	diag "$(root scontrol show job "$job" | grep -i reason)"
	"$cluster" start gpuckptd
	root scontrol release "$job"
	restarted 2
	answers
}
told() { grep -q "node n. seems to be cut off" "$dir/out"; }
both_stopped() { stopped "$node" && stopped "$other"; }
both_run() { ! stopped "$node" && ! stopped "$other"; }
held() { [[ $(root squeue -h -j "$job" -o '%T %r') =~ (held|Held|HOLD) ]]; }

journal_lost()
{
	begin "coordinator's journal lost before a restart"
	a_day_ahead | lose_journal
	check "$name: the clock is a day ahead" wait_ready "$job" 60
	lose_journal </dev/null
	check "$name: the journal is lost, and the clock was set right: the agents obey" \
		wait_ready "$job" 60
	create
	"$cluster" kill gpuckptd
	rm -rf "${GPUCKPT_LAB:?}"/gpuckptd/*
	root scontrol requeue "$job"
	restarted
	"$cluster" start gpuckptd
	check "$name: it goes on from the commit in the store" wait_ready "$job" 60
	check "$name: it is restored from commit 1" \
		grep -q "step $job.0: commit 1 is taken over" "$log"
	answers
	lose_journal </dev/null
	check "$name: lost again after the job's end: its commit is taken from the store" \
		wait_for 60 is_listed
	is "$(query "$job" .state)" "not running" "$name: it has status"
}
# lose_journal <RECORDS: gpuckptd starts again with these records alone
lose_journal()
{
	"$cluster" kill gpuckptd
	cat >"$GPUCKPT_LAB/gpuckptd/journal"
	"$cluster" start gpuckptd
}
# a_day_ahead: the journal of a coordinator whose clock is
a_day_ahead()
{
	"$(program journal_line)" "{\"t\":\"epoch\",\"epoch\":$((EPOCHSECONDS + 86400)),\"time\":0}"
}
is_listed() { [[ $(commits "$job") = 1 ]]; }

# slurmctld is killed, and starts with a state from before the job's last requeue.
slurmctld_set_back()
{
	local state=$GPUCKPT_LAB/state
	begin "slurmctld loses a requeue"
	"$cluster" kill slurmctld TERM
	wait_for 30 has_saved
	cp -a "$state" "$top_dir/state"
	"$cluster" start slurmctld
	create
	root scontrol requeue "$job"
	restarted
	check "$name: it runs again" wait_ready "$job" 60
	create
	"$cluster" kill slurmctld KILL
	rm -rf "${state:?}"
	cp -a "$top_dir/state" "$state"
	"$cluster" start slurmctld
	check "$name: its count of starts is that of before" wait_for 30 is_counted 0
	root scontrol requeue "$job"
	check "$name: the start that is counted again is requeued" wait_for 100 job_restarted \
		"$job" 2
	check "$name: the next one runs" wait_ready "$job" 60
	is "$(query "$job" .restored)" 2 "$name: from the newest commit"
	answers
}
has_saved() { ! root kill -0 "$(cat "$GPUCKPT_LAB/run/slurmctld.pid")"; }
is_counted() { [[ $(job_restarts "$job") = "$1" ]]; }

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
	# Slurm itself notices, here and where a node is cut off; elsewhere the node is set down
	# (node_dies).
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

	slurmd_timeout 40 # a connection that gets no answer ends after 18 s
	begin "node cut off"
	create
	"$cluster" cut "${other#n}"
	check "$name: its ranks on that node are stopped" wait_for 60 stopped "$other"
	check_not "$name: the job is not started again before that" job_restarted "$job" 1
	restarted
	check "$name: they are still stopped when it is" stopped "$other"
	"$cluster" mend "${other#n}"
	# The reconfigure makes slurmd register: slurmctld pings a node that is down in one round of
	# 20 only.
	slurmd_timeout 5
	check "$name: they end once Slurm reaches the node" wait_for 60 gone
	answers
	nodes_back
}
gone() { ! on "$other" pgrep -x burn; }
stopped() { [[ $(on "$1" ps -o stat= -C burn) = t* ]]; }

# slurmd_timeout SECONDS: Slurm sets a silent node down after that. gpuckptd asks Slurm for it at
# its start.
slurmd_timeout()
{
	sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" "$GPUCKPT_LAB/etc/slurm.conf"
	root scontrol reconfigure
	"$cluster" kill gpuckptd
	"$cluster" start gpuckptd
}

# ---- two copies of a job

# A program that numbers its lines: two that write at once are seen in the file.
number=$top_dir/number.py
cat >"$number" <<-'END'
	import os, sys, time
	out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
	line = 0
	while not os.path.exists("enough"):
	    line += 1
	    os.write(out, b"%d\n" % line)
	    time.sleep(0.01)
END

# numbers NAME [OPTION-VALUE]: a job of one rank on one node, which is $node
numbers()
{
	name=$1
	dir=$top_dir/${1//[^a-z]/-}
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	all_idle || nodes_back
	job=$(submit "$dir" -N1 -n1 <<-END
		#!/bin/bash
		srun --gpu-ckpt${2:+=$2} python3 $number lines
	END
	)
	wait_ready "$job" || report 1 "$name: the step runs under gpuckpt"
	wait_for 30 have_said "$dir/lines" || report 1 "$name: the rank writes"
	node=$(job_nodes "$job" | head -n 1)
}

# one_copy SECONDS [CMD...]: the job is started again on another node, after at most so long. Then
# CMD. The job had one copy at any time. It ends, unless the node was frozen: that node's srun may
# end the new start's step (doc/limits.md).
one_copy()
{
	check "$name: the job is started again" wait_for $((100 + $1)) job_restarted "$job" 1
	check "$name: its ranks run again" wait_ready "$job" $((100 + $1))
	shift
	"$@"
	check "$name: no rank of its first start runs" wait_for 30 no_rank
	if [[ -z ${frozen-} ]]; then
		wait_for 30 longer "$(wc -l <"$dir/lines")"
		alice touch "$dir/enough"
		check "$name: the job ends" wait_job "$job" COMPLETED 60
	fi
	is "$(awk '$1 != NR' "$dir/lines" | head -n 3 | xargs)" "" \
		"$name: no line was written by two copies"
	end_job "$job"
}
no_rank() { ! on "$node" pgrep -f "$number"; }
longer() { [[ $(wc -l <"$dir/lines") -gt $(($1 + 20)) ]]; }

# Slurm gives up a node whose ranks it cannot end. Here slurmd is killed, and the administrator sets
# the node down; in the long form Slurm itself finds out.
slurmd_killed()
{
	away slurmd 60 "slurmd killed" set_down late
}
set_down() { root scontrol update nodename="$node" state=down reason=test; }

# The long form of the same (half an hour each way): each way in which a node is away, for
# SlurmdTimeout 60 and 300, and it returns before the job's next start runs, or after.
copies()
{
	local way order time
	for time in {a..c}; do
		for way in ${1:-slurmd network node}; do
			for order in early late; do
				away "$way" 60 "$way away, back $order, time $time" true "$order"
			done
		done
	done
	for way in ${1:-slurmd network node}; do
		away "$way" 300 "$way away for long" true late
	done
}
copies_slurmd() { copies slurmd; }
copies_network() { copies network; }
copies_node() { copies node; }

# away WAY SLURMD-TIMEOUT NAME CMD early|late: the node's slurmd, network or all of it is away; CMD
# after that. It is back before the job's next start runs, or after.
away()
{
	local n frozen=
	[[ "$1 $5" != "node late" ]] || frozen=1
	slurmd_timeout "$2"
	numbers "$3"
	n=${node#n}
	create
	leave "$1"
	"$4"
	if [[ $5 = early ]]; then
		check "$name: Slurm requeues the job" wait_for $((100 + $2)) is_requeued
		# job_restarted shortens Slurm's delay, which lets a node end the job's former
		# steps.
		root scontrol update jobid="$job" excnodelist="$node"
		back "$1"
		one_copy "$2"
	else
		one_copy "$2" back "$1"
	fi
	# Elsewhere Slurm may end the ranks first.
	[[ "$1 $5" != "slurmd late" ]] ||
		check "$name: their agent has ended them" grep -q "step $job.0 is ended" \
			"$GPUCKPT_LAB/log/agents/$job.0.$node.log"
	slurmd_timeout 5
	nodes_back
}
is_requeued() { root scontrol show job "$job" | grep -q "Restarts=1"; }

leave()
{
	case $1 in
	slurmd) "$cluster" kill "slurmd-$n" KILL ;;
	network) "$cluster" cut "$n" ;;
	node) "$cluster" freeze "$n" ;;
	esac
}

back()
{
	case $1 in
	slurmd) "$cluster" start "slurmd-$n" ;;
	network) "$cluster" mend "$n" ;;
	node) "$cluster" thaw "$n" ;;
	esac
}

store_full()
{
	begin "store full" "store=file:$GPUCKPT_LAB/small"
	check_not "$name: create fails" alice gpuckpt create "$job"
	like "$(alice gpuckpt create "$job" 2>&1)" 'pace|full|make room' \
		"$name: create gives the reason"
	is "$(find "$GPUCKPT_LAB/small" -type f -size +64k)" "" \
		"$name: nothing is left in the store"
	answers
}

# damage NAME FIND-PATTERN: one byte in the middle of the newest file that matches
damage()
{
	local file
	begin "$1"
	create
	create
	file=$(find "$GPUCKPT_LAB/store/lab/$job" -path "$2" -type f -printf '%T@ %p\n' |
		sort -n | tail -n 1)
	file=${file#* }
	[[ -n $file ]] || { report 1 "$name: nothing matches $2"; end_job "$job"; return; }
	flip "$file"
	spoiled "$job"
	check_not "$name: verify finds it" alice gpuckpt verify "$job"
	check_not "$name: verify --restore finds it" alice gpuckpt verify --restore "$job"
	check "$name: and that the commit before builds" alice gpuckpt verify --restore "$job.0" 1
	root scontrol requeue "$job"
	restarted
	check "$name: the ranks run again" wait_ready "$job" 60
	is "$(query "$job" .restored)" 1 "$name: it is restored from the commit before"
	check "$name: the coordinator's log names commit 1" \
		grep -q "step $job.0: all ranks fall back to commit 1" "$log"
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
	spoiled "$job"
	flip "$(find "$GPUCKPT_LAB/store/lab/$job" -name commit-1.json)"
	root scontrol requeue "$job"
	stopped() { held || [[ $(job_state "$job") =~ FAILED|COMPLETED ]]; }
	check "$name: the job does not start from the beginning" wait_for 60 stopped
	check_not "$name: the job is not COMPLETED" job_is "$job" COMPLETED
	diag "$(root squeue -h -t all -j "$job" -o '%T %r') $(tail -n 3 "$dir/out")"
	reason "commit-1.json"
	end_job "$job"
}

# A program that crashes right after each restart: the checkpoint before is used, then the job is
# held. Its script requeues the job itself as soon as srun has failed.
crashes()
{
	local times=$((${GPUCKPT_LONG:+2} + 1))
	name=crashes
	dir=$top_dir/crashes
	mkdir "$dir"
	cat >"$dir/crash.py" <<-'END'
		import os, time
		state = 1
		print("state 1", flush=True)
		while not os.path.exists("crash"):
		    if state == 1 and os.path.exists("go"):
		        state = 2
		        print("state 2", flush=True)
		    time.sleep(0.05)
		print("crash in state", state, flush=True)
		os.abort()
	END
	chown -R --reference="$top_dir" "$dir"
	all_idle || nodes_back
	conf_with "RestartFailures=$times"
	job=$(submit "$dir" -n1 <<-END
		#!/bin/bash
		ulimit -c 0
		srun --gpu-ckpt=keep=2 python3 crash.py || scontrol requeue \$SLURM_JOB_ID
	END
	)
	wait_ready "$job"
	wait_for 30 grep -q "state 1" "$dir/out"
	create
	alice touch "$dir/go"
	wait_for 30 grep -q "state 2" "$dir/out"
	create
	alice touch "$dir/crash"
	soon_held() { job_restarted "$job" 1; held; }
	check "$name: the job is held in the end" wait_for $((30 * times)) soon_held
	is "$(grep 'crash in' "$dir/out" | uniq -c | xargs)" \
		"$((times + 1)) crash in state 2 $times crash in state 1" \
		"$name: in the first start, $times from each of the two checkpoints"
	reason "rank 0 was killed by signal 6 "
	restart_gpuckptd
	reason "rank 0 was killed by signal 6 "
	rm "$dir/crash"
	root scontrol release "$job"
	check "$name: once released it runs again" wait_ready "$job" 60
	is "$(query "$job" .state)" running "$name: its state is running"
	end_job "$job"
}

state_is() { [[ $(query "$job" .state) = "$1" ]]; }

# reason PATTERN: status and Slurm tell why the job is held
reason()
{
	check "$name: the state is held" wait_for 20 state_is held
	like "$(query "$job" .last_error)" "$1" "$name: status has the reason"
	like "$(root scontrol show job "$job" | grep AdminComment)" "$1" \
		"$name: so has AdminComment"
}

[[ $# -gt 0 ]] || set -- rank_killed agent_killed coordinator_killed journal_lost \
	slurmctld_set_back slurmstepd_killed node_killed slurmd_killed store_full damaged crashes
for fault; do
	$fault
done
finish
