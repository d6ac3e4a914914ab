#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What MPI ranks must survive: rank, agent, coordinator, slurmstepd and node killed while MPI is
# brought to rest and while it comes back; ranks that compute, come late or are through with MPI. A
# checkpoint that cannot be had is given up in time, by name; the job goes on or starts again, and
# its answers are those of an uninterrupted run. Most of it needs a build with --enable-faults.
#   mpi_faults.sh [CASE...]
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }

ring=$(CC=mpicc program ring)
top_dir=$(work_dir)
pause=2000
limit=25 # seconds for any create, whatever is wrong: the time limits below and what they add

has_faults() { grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/lib/gpuckpt/libgpuckpt-mpi.so"; }

# begin NAME OPTION-VALUE RANKS STEPS [RING-ARGS...]: a job on two nodes; sets $job, $dir, $node, $other
begin()
{
	local option=--gpu-ckpt${2:+=$2}
	name=$1 ranks=$3 steps=$4
	dir=$top_dir/${1//[^a-z0-9]/-}
	mkdir -p "$dir/faults"
	chown -R --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	job=$(submit "$dir" -N2 -n"$ranks" <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1 GPUCKPT_FAULT=$dir/faults
		srun --mpi=pmix $option $ring $steps $pause ${*:5} >answers
	END
	)
	wait_ready "$job" 40 || report 1 "$name: the step comes under gpuckpt's care"
	where
}

# Which nodes the job runs on.
where()
{
	node=$(job_nodes "$job" | head -n 1)
	other=$(job_nodes "$job" | tail -n 1)
}

on() { root -n "${1#n}" "${@:2}"; }

# ---- faults to order (common/fault.h)

arm() { touch "$dir/faults/$1"; }
went_off() { ! test -e "$dir/faults/$1"; }
holds() { test -e "$dir/faults/held.$1"; }
let_go() { rm -f "$dir"/faults/*; }

# in_time CMD...: CMD must end by itself
in_time() { timeout "$limit" "$cluster" exec -u alice "$@"; }

create() { check "$name: ${1-create}" in_time gpuckpt create "$job"; }

# create_in POINT: a create of which one rank is held there; sets $creating
create_in()
{
	arm "hold.$1"
	in_time gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	wait_for 15 holds "$1" || report 1 "$name: no rank came to $1: $(query "$job" .)"
}

# not_created REGEX TEXT: the create of before, or of now, fails, in time, and says why
not_created()
{
	local status=0
	if [[ -n ${creating-} ]]; then
		wait "$creating" || status=$?
		creating=
	else
		in_time gpuckpt create "$job" >"$dir/create" 2>&1 || status=$?
	fi
	[[ $status -ne 0 && $status -ne 124 && $(cat "$dir/create") =~ $1 ]]
	report $? "$name: $2" || diag "status $status: $(cat "$dir/create")"
}

# ---- ends

progress() { sed -n 's/^step //p' "$dir/out" | tail -n 1; }
further() { [[ $(progress) -gt $1 ]]; }
goes_on() { check "$name: the ranks go on" wait_for 20 further "$(progress)"; }

restarted() { check "$name: the job is started again" wait_for "${2-90}" job_restarted "$job" "${1-1}"; }
back() { check "$name: its ranks come back" wait_ready "$job" 60; }

requeue()
{
	root scontrol requeue "$job"
	restarted "$@"
}

# The digest of an uninterrupted run, made once.
want()
{
	local file=$top_dir/want.$ranks.$steps
	[[ -s $file ]] || OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe \
		-np "$ranks" "$ring" "$steps" 2>/dev/null | sort >"$file"
	cat "$file"
}

answers()
{
	check "$name: the job ends" wait_job "$job" COMPLETED "${1-90}" ||
		diag "$(tail -n 20 "$dir/out")"$'\n'"$(query "$job" .)"
	is "$(sort "$dir/answers")" "$(want)" "$name: with the answers of an uninterrupted run"
}

# ---- quiesce, taking in of messages

rank_killed()
{
	local point
	for point in READY BRING_ON QUIESCED; do
		begin "rank killed, MPI_$point" hold=4s 4 3000
		create
		arm "kill.MPI_$point"
		not_created "." "a create tells that it failed"
		check "$name: the fault went off" went_off "kill.MPI_$point"
		requeue
		answers
	done
}

agent_killed()
{
	local point
	begin "agent's worker killed" hold=4s 4 5000
	for point in MPI_ROUND MPI_FENCE MPI_BRING_ON MPI_SAVE MPI_QUIESCED; do
		create_in $point
		on "$node" pkill -KILL --newest -x gpuckpt-agent
		sleep 0.3
		let_go
		not_created "." "$point: create tells that it failed"
		check "$name: $point: it comes back" wait_ready "$job" 20
		goes_on
	done
	create
	answers

	begin "whole agent killed" hold=4s,timeout=5s 4 3000
	create_in MPI_FENCE
	on "$other" pkill -KILL -x gpuckpt-agent
	let_go
	not_created "." "create tells that it failed"
	goes_on
	not_created "agent" "so does the next, by name"
	answers
}

coordinator_killed()
{
	local point
	begin "coordinator killed" hold=4s 4 5000
	for point in MPI_ROUND MPI_FENCE MPI_BRING_ON MPI_QUIESCED; do
		create_in $point
		"$cluster" kill gpuckptd
		let_go
		not_created "." "$point: create tells that it failed"
		goes_on
		"$cluster" start gpuckptd
		check "$name: $point: the step is known again" wait_ready "$job" 30
	done
	create
	answers
}

node_killed()
{
	local point
	for point in MPI_FENCE MPI_BRING_ON; do
		begin "node killed, $point" hold=4s 4 3000
		create
		create_in $point
		"$cluster" node-kill "${other#n}"
		let_go
		not_created "." "a create tells that it failed"
		restarted
		"$cluster" node-start "${other#n}"
		answers
		nodes_back
	done
}

# PMIx's server dies with slurmstepd.
slurmstepd_killed()
{
	begin "PMIx server killed" hold=4s 4 3000
	create
	create_in MPI_FENCE
	on "$other" pkill -KILL -f "slurmstepd: \[$job\.0\]"
	let_go
	not_created "." "a create tells that it failed"
	gone() { ! on "$other" pgrep -x ring; }
	check "$name: its ranks do not run on as orphans" wait_for 30 gone
	requeue
	answers
}

# ---- MPI on its way back

rebuild_rank_killed()
{
	local point
	begin "rank killed while MPI comes back" "" 4 4000
	create
	for point in RESTORED LOADED INITIALIZED REBUILT; do
		arm "kill.MPI_$point"
	done
	root scontrol requeue "$job"
	# Each restart meets one of them, and is doomed.
	restarted 5 150
	for point in RESTORED LOADED INITIALIZED REBUILT; do
		check "$name: the fault at $point went off" went_off "kill.MPI_$point"
	done
	back
	create "create after it"
	answers
}

rebuild_killed()
{
	begin "agent killed while MPI comes back" timeout=10s 4 4000
	create
	arm hold.MPI_INITIALIZED
	requeue
	where
	check "$name: a rank is held there" wait_for 30 holds MPI_INITIALIZED
	on "$node" pkill -KILL -x gpuckpt-agent
	let_go
	diag "$(sleep 3; root squeue -h -j "$job" -o '%T %r')"
	answers

	begin "coordinator killed while MPI comes back" timeout=10s 4 4000
	create
	arm hold.MPI_LOADED
	requeue
	check "$name: a rank is held there" wait_for 30 holds MPI_LOADED
	"$cluster" kill gpuckptd
	let_go
	sleep 1
	"$cluster" start gpuckptd
	back
	create "create after it"
	answers

	begin "node killed while MPI comes back" timeout=10s 4 4000
	create
	arm hold.MPI_INITIALIZED
	requeue
	where
	check "$name: a rank is held there" wait_for 30 holds MPI_INITIALIZED
	"$cluster" node-kill "${other#n}"
	let_go
	restarted 2
	answers
	nodes_back

	begin "a rank hangs while MPI comes back" timeout=5s 4 4000
	create
	arm hold.MPI_INITIALIZED
	requeue
	check "$name: a rank is held there" wait_for 30 holds MPI_INITIALIZED
	restarted 2
	let_go
	answers
}

# ---- ranks that are not where others want them

odd_ranks()
{
	# Rank 1 waits in a receive: nothing is owed.
	begin "a rank computes, nothing is owed" hold=3s 2 600 200 8
	check "$name: it computes" wait_for 20 further 99
	sleep 2
	create
	create "again"
	root scontrol requeue "$job"
	restarted
	answers

	# Of four, rank 3 waits in a collective operation.
	begin "a rank computes, others wait in a collective" hold=3s 4 1500 200 8
	check "$name: it computes" wait_for 20 further 99
	sleep 2
	not_created "rank 0.*computes" "a create is given up, and names it"
	check "$name: it goes on" wait_for 20 further 200
	create "the next create succeeds"
	answers

	begin "a rank comes late to MPI_Init" hold=3s 4 1500 init 7
	not_created "rank [0-9].*inside MPI_Init" "a create is given up, and says so"
	check "$name: it goes on" wait_for 20 further 100
	create "the next create succeeds"
	answers

	begin "a rank comes late to MPI_Finalize" hold=3s 4 200 finalize 9
	check "$name: the others wait there" wait_for 20 further 99
	sleep 2
	not_created "rank [0-9].*MPI_Finalize" "a create is given up, and says so"
	answers

	begin "ranks are past MPI_Finalize" hold=3s 4 200 after 10
	check "$name: they work" wait_for 20 further 99
	sleep 3
	create
	root scontrol requeue "$job"
	restarted
	answers
}

# ---- what users and operators do

at_once()
{
	local first second
	begin "two creates at once" "" 4 2500
	in_time gpuckpt create "$job" >"$dir/first" 2>&1 &
	first=$!
	in_time gpuckpt create "$job" >"$dir/second" 2>&1 &
	second=$!
	check "$name: the first succeeds" wait "$first" || diag "$(cat "$dir/first")"
	check "$name: the second succeeds" wait "$second" || diag "$(cat "$dir/second")"
	check "$name: requeue" in_time gpuckpt requeue "$job"
	restarted
	back
	check "$name: vacate" in_time gpuckpt vacate "$job"
	diag "after vacate: $(sleep 1; root squeue -h -t all -j "$job" -o '%T %r')"
	end_job "$job"
}

[[ $# -gt 0 ]] || set -- rank_killed agent_killed coordinator_killed node_killed slurmstepd_killed \
	rebuild_rank_killed rebuild_killed odd_ranks at_once
for fault; do
	case $fault in
	odd_ranks | at_once) ;;
	*) has_faults || { report 0 "$fault # SKIP a build without --enable-faults"; continue; } ;;
	esac
	$fault
done
finish
