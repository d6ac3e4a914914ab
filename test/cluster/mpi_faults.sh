#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults that MPI ranks survive: rank, agent, coordinator, slurmstepd (PMIx's server) and node
# killed or stopped while MPI is quiesced and while it is rebuilt; ranks that compute, come late, or
# are past MPI_Finalize. A checkpoint that is impossible fails in time, with the reason; the job
# goes on or starts again, and its answers are those of an uninterrupted run. Needs a build with
# --enable-faults.
#   mpi_faults.sh [CASE[:POINT,...]]...     (common/base/fault.h, without GCK_FAULT_MPI_)
# Without CASE a selection runs; with GPUCKPT_LONG=1 all cases at every point.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need_mpi
grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/lib/gpuckpt/libgpuckpt-mpi.so" ||
	{ echo "1..0 # SKIP a build without --enable-faults"; exit 0; }

ring=$(CC=mpicc program ring)
top_dir=$(work_dir)
limit=60 # seconds for a create: far more than hold= and timeout= below allow
job='' creating='' fence='' only='' met_by=''

# ---- jobs: four ranks on two nodes. hold= is long enough to quiesce them on a busy machine.

# submit_ring NAME OPTION-VALUE RANKS STEPS [RING-ARGS...]: sets $job and $dir. All ranks meet
# faults, or rank $only alone.
submit_ring()
{
	name=$1 options=$2 met_by=$only
	dir=$top_dir/${1//[^a-z0-9]/-}
	mkdir -p "$dir/faults"
	chown -R --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	job=$(submit "$dir" -N2 -n"$3" <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		export GPUCKPT_FAULT=$dir/faults RING_UNTIL=$dir/enough
		srun --mpi=pmix --gpu-ckpt${2:+=$2} bash -c '
			[[ \${1:-\$SLURM_PROCID} = \$SLURM_PROCID ]] || unset GPUCKPT_FAULT
			exec $ring $4 2000 ${*:5}' bash $only >answers
	END
	)
	fence=''
	wait_ready "$job" 40 || report 1 "$name: the step runs under gpuckpt"
}

# begin NAME OPTION-VALUE [POINT]: a ring that runs until the test ends it. The ring of the case
# before is taken if it has the same options, is unharmed, and the same ranks meet faults there.
# After a fence that some ranks left unfinished they use PMIx no more: then it is not taken if POINT
# is FENCE.
begin()
{
	if [[ -n $job && ! -e $dir/enough && $options = "$2" && $met_by = "$only" ]] &&
		[[ ${3-}$fence != FENCEunfinished ]] &&
		wait_for 10 ready "$job"; then
		name=$1
	else
		[[ -z $job ]] || answers
		submit_ring "$1" "$2" 4 1000000
		check "$name: its ranks talk" wait_for 20 further 0
	fi
	where
}

where()
{
	node=$(job_nodes "$job" | head -n 1)
	other=$(job_nodes "$job" | tail -n 1)
}

progress() { sed -n 's/^step //p' "$dir/out" | tail -n 1; }
further() { [[ $(progress) -gt $1 ]]; }
goes_on() { check "$name: the ranks go on" wait_for 20 further "$(progress)"; }

on() { root -n "${1#n}" "${@:2}"; }

# answers: the test ends the job and compares its answers
answers()
{
	touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 60 || diag "$(query "$job" .)"
	check "$name: it has printed answers" test -s "$dir/answers"
	is "$(sort "$dir/answers")" "$(want)" "$name: the answers are those of an uninterrupted run"
	job=''
}

want()
{
	local ranks steps
	read -r _ _ ranks _ _ steps <"$dir/answers"
	"$ring" want "${ranks%:}" "$steps"
}

# ---- faults

arm() { touch "$dir/faults/$1.MPI_$2"; }
went_off() { ! test -e "$dir/faults/$1.MPI_$2"; }
holds() { test -e "$dir/faults/held.MPI_$1"; }
let_go() { rm -f "$dir"/faults/*; }

# in_time CMD...: CMD must end by itself
in_time() { timeout "$limit" "$cluster" exec -u alice "$@"; }

create() { check "$name: ${1-create}" in_time gpuckpt create "$job"; }

start_create()
{
	in_time gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
}

# passes KIND POINT: the fault went off. If the create ends without that, another one is started.
passes()
{
	$1 "$2" && return
	kill -0 "$creating" 2>/dev/null || start_create
	return 1
}
is_killed() { went_off kill "$1"; }

# create_in POINT: start a create, in which a rank is held there. create_killing POINT: is killed
# there.
create_in()
{
	arm hold "$1"
	fence=unfinished
	start_create
	wait_for 20 passes holds "$1" || report 1 "$name: no rank came to $1: $(query "$job" .)"
}

create_killing()
{
	arm kill "$1"
	start_create
	wait_for 20 passes is_killed "$1" || report 1 "$name: no rank came to $1: $(query "$job" .)"
}

# not_created REGEX TEXT: the create that was started, or a new one, fails in time (else timeout
# gives 124), and its message matches
not_created()
{
	local status=0
	[[ -n $creating ]] || start_create
	wait "$creating" || status=$?
	creating=''
	is "$status" 1 "$name: $2" || diag "$(cat "$dir/create")"
	like "$(cat "$dir/create")" "$1" "$name: $2: the message"
}

# ---- restarts

# requeue [TIMES]: the job is requeued, and started again that often in all
requeue()
{
	local before
	before=$(job_restarts "$job")
	root scontrol requeue "$job"
	started_again $((before + ${1-1}))
}

started_again()
{
	check "$name: the job is started again" wait_for 100 job_restarted "$job" "$1"
	fence=''
	where
}

back()
{
	check "$name: its ranks come back" wait_ready "$job" 60
	goes_on
}

# ---- quiesce

# Rank 3 is killed: it is alone on its node, and the step runs on. When a rank with others beside it
# dies, Slurm's PMIx plugin ends the step about a second later, and the next create may find no
# step.
rank_killed()
{
	local point
	for point; do
		only=3 begin "rank killed, $point" hold=12s,timeout=20s "$point"
		create
		create_killing "$point"
		not_created . "create fails"
		not_created "without MPI_Finalize|past MPI_Finalize, or has ended" \
			"the next create fails"
		requeue
		back
	done
}

ended() { ! on "$node" test -e "/proc/$1"; }

agent_killed()
{
	local point agent
	for point; do
		begin "agent killed, $point" hold=12s,timeout=20s "$point"
		create_in "$point"
		agent=$(on "$node" pgrep --newest -x gpuckpt-agent)
		on "$node" kill -KILL "$agent"
		check "$name: the agent is gone" wait_for 20 ended "$agent"
		let_go
		not_created . "create fails"
		check "$name: it comes back" wait_ready "$job" 20
		goes_on
		create "the next create succeeds"
	done
}

# The agent is dead with its supervisor, or stopped.
agent_lost()
{
	begin "whole agent killed" hold=4s,timeout=5s FENCE
	create_in FENCE
	on "$other" pkill -KILL -x gpuckpt-agent
	let_go
	not_created . "create fails"
	goes_on
	not_created agent "the next create fails"
	answers

	begin "agent stopped" hold=12s,timeout=20s FENCE
	create_in FENCE
	on "$other" pkill -STOP -x gpuckpt-agent
	let_go
	not_created . "create fails"
	goes_on
	on "$other" pkill -CONT -x gpuckpt-agent
	check "$name: it is ready again" wait_ready "$job" 30
	create "the next create succeeds"
}

# Only one node gets the order to enter PMIx's fence: MPI_Finalize, which has a fence too, must not
# wait for the ranks of the other node.
fence_left()
{
	only=0 begin "a node is not in the fence" hold=5s,timeout=20s FENCE
	create_in ROUND
	sleep 1 # until rank 3 has said READY, which nothing shows outside
	on "$other" pkill -STOP -x gpuckpt-agent
	let_go
	not_created . "create fails"
	on "$other" pkill -CONT -x gpuckpt-agent
	goes_on
	create "the next create succeeds"
	answers
}

coordinator_killed()
{
	local point
	for point; do
		begin "coordinator killed, $point" hold=12s,timeout=20s "$point"
		create_in "$point"
		"$cluster" kill gpuckptd
		let_go
		not_created . "create fails"
		goes_on
		"$cluster" start gpuckptd
		check "$name: the step is ready again" wait_ready "$job" 30
		create "the next create succeeds"
	done
}

# node_again NODE: start it, and wait until Slurm can start tasks there
node_again()
{
	"$cluster" node-start "${1#n}"
	check "$name: the node can be used again" \
		wait_for 60 root srun -Q --immediate=5 -w "$1" -N1 true
}

node_killed()
{
	local point before killed
	for point; do
		begin "node killed, $point" hold=12s,timeout=20s "$point"
		create
		before=$(job_restarts "$job") killed=$other
		create_in "$point"
		node_dies "${killed#n}"
		let_go
		not_created . "create fails"
		started_again $((before + 1))
		back
		node_again "$killed"
	done
}

# PMIx's server dies with slurmstepd. The files that it leaves must be removed: otherwise Slurm
# 22.05 cannot start the step on this node again, and srun returns 0.
slurmstepd_killed()
{
	begin "slurmstepd killed" hold=12s,timeout=20s FENCE
	create
	create_in FENCE
	on "$other" pkill -KILL -f "slurmstepd: \[$job\.0\]"
	let_go
	not_created . "create fails"
	gone() { ! on "$other" pgrep -x ring; }
	check "$name: its ranks do not run on as orphans" wait_for 30 gone
	on "$other" sh -c "cd $GPUCKPT_LAB &&
		rm -rf spool/$other/*pmix.$job.0 tmp/spmix_appdir_*_$job.0"
	requeue
	back
}

# ---- MPI is rebuilt

# restart_in POINT: a checkpoint and a requeue; in the restart a rank is held there
restart_in()
{
	create
	arm hold "$1"
	requeue
	check "$name: a rank is held there" wait_for 40 holds "$1"
}

# RESTORED and LOADED are no part of the long form: when ranks die while they connect to PMIx
# 4.2.2's server, in slurmstepd, that may wait for a lock for ever at its end. The next start of the
# step on this node then fails in Slurm ("Cannot bind() UNIX socket stepd.slurm.pmix.*").
rebuild_rank_killed()
{
	local point
	for point; do
		begin "rank killed while MPI comes back, $point" hold=12s,timeout=20s
		create
		arm kill "$point"
		requeue 2
		check "$name: the fault went off" is_killed "$point"
		back
	done
}

rebuild_agent_killed()
{
	local point before
	for point; do
		begin "agent killed while MPI comes back, $point" hold=12s,timeout=20s
		restart_in "$point"
		before=$(job_restarts "$job")
		on "$node" pkill -KILL --newest -x gpuckpt-agent
		on "$other" pkill -KILL --newest -x gpuckpt-agent
		let_go
		started_again $((before + 1))
		back
	done
}

# Ranks whose agent is dead run on.
rebuild_agent_lost()
{
	begin "whole agent killed while MPI comes back" hold=12s,timeout=20s
	restart_in INITIALIZED
	on "$node" pkill -KILL -x gpuckpt-agent
	let_go
	goes_on
	not_created "agent|being restarted" "create fails"
	answers
}

rebuild_coordinator_killed()
{
	local point
	for point; do
		begin "coordinator killed while MPI comes back, $point" hold=12s,timeout=20s
		restart_in "$point"
		"$cluster" kill gpuckptd
		check "$name: the agents have lost it" wait_for 20 agents_alone "$job"
		let_go
		"$cluster" start gpuckptd
		back
		create "create after it"
	done
}

rebuild_node_killed()
{
	local before killed
	# timeout=: the node is down in Slurm before the restart fails. Two requeues at once would
	# keep Slurm busy for minutes.
	begin "node killed while MPI comes back" hold=4s,timeout=30s
	restart_in INITIALIZED
	before=$(job_restarts "$job") killed=$other
	node_dies "${killed#n}"
	let_go
	started_again $((before + 1))
	back
	node_again "$killed"
}

rebuild_hangs()
{
	local before
	begin "a rank hangs while MPI comes back" hold=12s,timeout=20s
	restart_in INITIALIZED
	before=$(job_restarts "$job")
	started_again $((before + 1))
	let_go
	back
}

# ---- ranks that are not in MPI when the others wait for them

computes()
{
	# Rank 1 waits in a receive: no message is under way.
	submit_ring "a rank computes, no message is under way" hold=4s 2 400 200 20
	check "$name: it computes" wait_for 20 grep -q '^computes' "$dir/out"
	create
	create "again"
	requeue
	answers

	# Of four, rank 3 waits in a collective operation.
	submit_ring "a rank computes, others wait in a collective" hold=3s 4 1000000 200 10
	check "$name: it computes" wait_for 20 grep -q '^computes' "$dir/out"
	not_created "rank 0.*computes" "create fails"
	check "$name: it goes on" wait_for 20 further 200
	create "the next create succeeds"
	answers
}

comes_late()
{
	submit_ring "a rank comes late to MPI_Init" hold=3s 4 1000000 init 9
	create "create waits for it"
	check "$name: it goes on" wait_for 30 further 100
	create "the next create succeeds"
	answers

	submit_ring "a rank comes late to MPI_Finalize" hold=3s 4 200 finalize 15
	check "$name: the others wait there" wait_for 20 grep -q '^computes' "$dir/out"
	not_created "it ended before the checkpoint was complete" "create waits, and fails"
	answers
}

# ---- two creates

at_once()
{
	local i pids=()
	begin "two creates at once" hold=12s,timeout=20s
	for i in 1 2; do
		in_time gpuckpt create "$job" >"$dir/create.$i" 2>&1 &
		pids+=($!)
	done
	for i in 1 2; do
		wait "${pids[i - 1]}"
		report $? "$name: create $i succeeds" || diag "$(cat "$dir/create.$i")"
	done
}

all_rounds=ROUND,READY,FENCE,BRING_ON,SAVE,QUIESCED
if [[ $# -gt 0 ]]; then
	cases=("$@")
elif [[ -n ${GPUCKPT_LONG-} ]]; then
	cases=(at_once "agent_killed:$all_rounds" "coordinator_killed:$all_rounds"
		"rank_killed:$all_rounds" "rebuild_rank_killed:INITIALIZED,REBUILT"
		"rebuild_agent_killed:INITIALIZED,REBUILT"
		"rebuild_coordinator_killed:RESTORED,LOADED,INITIALIZED,REBUILT"
		rebuild_hangs "node_killed:FENCE,BRING_ON,QUIESCED" rebuild_node_killed
		slurmstepd_killed rebuild_agent_lost agent_lost fence_left computes comes_late)
else
	cases=(agent_killed:FENCE coordinator_killed:QUIESCED rank_killed:BRING_ON
		rebuild_rank_killed:INITIALIZED rebuild_agent_killed:REBUILT node_killed:FENCE
		fence_left)
fi
for each in "${cases[@]}"; do
	points=${each#"${each%%:*}"}
	# shellcheck disable=SC2046 # a list
	"${each%%:*}" $(tr , ' ' <<<"${points#:}")
done
[[ -z $job ]] || answers
finish
