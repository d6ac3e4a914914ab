#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The sweep: at each fault point of checkpoint and restart (common/base/fault.h) the process that
# passes it is killed, or is held there while another part fails. Whatever happens, a create ends in
# time, the job goes on or comes back by itself, and its answers are those of an uninterrupted run.
# Needs a build with --enable-faults.
#   sweep.sh [N/M | POINT+FAULT...]       the N-th of M parts of the pairs; or these pairs
# Without arguments 40 pairs, in which each point and each fault occurs; with GPUCKPT_LONG=1 all.
# GPUCKPT_SWEEP_TABLE=FILE gets the table of doc/faults.md.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }
grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/lib/gpuckpt/libgpuckpt-mpi.so" ||
	{ echo "1..0 # SKIP a build without --enable-faults"; exit 0; }

ring=$(CC=mpicc program ring)
top_dir=$(work_dir)
clock=$top_dir/clock.so an_hour_ahead=$top_dir/an_hour_ahead # test/support/clock.h
touch "$top_dir/config.h"
gcc -shared -fPIC -O2 -D_GNU_SOURCE -I"$top_dir" -I"$top" -o "$clock" \
	"$top/test/support/fake_clock.c" || { echo "Bail out! the clock cannot be built"; exit 1; }
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("qqq", 0, 3600 * 10**9, 1))' \
	>"$an_hour_ahead"
table=${GPUCKPT_SWEEP_TABLE-/dev/null}
job='' runs=0

checkpoint_points=$(sed -n 's/^\tGCK_FAULT_\(\(AGENT\|WORKER\)_[A-Z]*\),.*/\1/p' \
	"$top/common/base/fault.h")" MPI_ROUND MPI_READY MPI_FENCE MPI_BRING_ON MPI_SAVE
	MPI_QUIESCED"
restart_points="RESTORE_BUILD RESTORE_BUILT RESTORE_FILES RESTORE_RUN
	MPI_RESTORED MPI_LOADED MPI_INITIALIZED MPI_REBUILT"

# ---- the job: four ranks on two nodes

begin()
{
	dir=$top_dir/$((++runs))
	mkdir -p "$dir/faults"
	chown -R --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	job=$(submit "$dir" -N2 -n4 <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		export GPUCKPT_FAULT=$dir/faults RING_UNTIL=$dir/enough
		srun --mpi=pmix --gpu-ckpt=hold=8s,timeout=15s $ring 1000000 2000 >answers
	END
	)
	wait_ready "$job" 40 || report 1 "the step runs under gpuckpt"
	wait_for 20 further 0
	in_time gpuckpt create "$job" >/dev/null || report 1 "a first checkpoint"
}

progress() { sed -n 's/^step //p' "$dir/out" | tail -n 1; }
further() { [[ $(progress) -gt $1 ]]; }
in_time() { timeout 60 "$cluster" exec -u alice "$@"; }
on() { root -n "${1#n}" "${@:2}"; }

# what all pairs on this job have done to its answers
answers()
{
	touch "$dir/enough"
	check "job $runs ends" wait_job "$job" COMPLETED 60 || diag "$(query "$job" .)"
	local ranks steps
	read -r _ _ ranks _ _ steps <"$dir/answers"
	is "$(sort "$dir/answers")" "$("$ring" want "${ranks%:}" "$steps")" \
		"job $runs: the answers are those of an uninterrupted run"
	job=''
}

# ---- faults: while a process is held at the point; what follows `away` happens once it is let go

fault_of_gpuckptd() { "$cluster" kill gpuckptd; away "$cluster" start gpuckptd; }
fault_of_slurmctld() { "$cluster" kill slurmctld; away "$cluster" start slurmctld; }
fault_of_agent() { on "$node" pkill -KILL --newest -x gpuckpt-agent; }
fault_of_agents() { on "$other" pkill -KILL --newest -x gpuckpt-agent; fault_of_agent; }
fault_of_stopped_agent()
{
	on "$other" pkill -STOP -x gpuckpt-agent
	away on "$other" pkill -CONT -x gpuckpt-agent
}
fault_of_network() { "$cluster" cut "${other#n}"; away "$cluster" mend "${other#n}"; }
fault_of_deaf_node() { "$cluster" deafen "${other#n}"; away "$cluster" mend "${other#n}"; }
fault_of_mute_node() { "$cluster" mute "${other#n}"; away "$cluster" mend "${other#n}"; }
fault_of_clock()
{
	"$cluster" kill gpuckptd
	away "$cluster" start gpuckptd LD_PRELOAD="$clock" GCK_TEST_CLOCK="$an_hour_ahead"
}
fault_of_frozen_node() { "$cluster" freeze "${other#n}"; away "$cluster" thaw "${other#n}"; }
fault_of_rank() { on "$other" pkill -KILL --newest -x ring; spoiled=1; }
fault_of_node()
{
	node_dies "${other#n}"
	away "$cluster" node-start "${other#n}"
	died=1
}
away() { then=("$@"); }
faults="gpuckptd clock slurmctld agent agents stopped_agent network deaf_node mute_node frozen_node
	rank node"

# ---- one pair

holds() { test -e "$dir/faults/held.$1"; }
went_off() { ! test -e "$dir/faults/kill.$1"; }
is_checkpoint() { [[ " ${checkpoint_points//[$'\n\t']/ } " = *" $1 "* ]]; }

# reaches CONDITION POINT: a create that ends before that is started again
reaches()
{
	"$1" "$2" && return
	! is_checkpoint "$2" || kill -0 "$creating" 2>/dev/null || start_create
	return 1
}
start_create()
{
	in_time gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
}

# One look whether the job is back: with its agents, and further than it was. A slurmstepd whose
# PMIx tries to reach a dead peer stays for 17 s and keeps the socket of the next start's, whose
# srun then ends the job with status 0. Slurm starts it after 6 s here, elsewhere after 2 minutes.
is_back()
{
	case $(job_state "$job") in
	PENDING)
		! has_left "$job" || root scontrol update jobid="$job" starttime=now+4
		job_restarted "$job" 1
		;;
	RUNNING) ready "$job" && further "$at" ;;
	*) [[ $died || $spoiled ]] && root scontrol requeue "$job" ;;
	esac && [[ $(job_state "$job") = RUNNING ]] && ready "$job" && further "$at"
}

# pair POINT FAULT
pair()
{
	local point=$1 fault=$2 what=hold met=holds creating='' status=0 then=() spoiled='' died=''
	local name="$1, $2" before at outcome
	# A fence that was called off leaves a job without PMIx.
	[[ ! $job || $point != MPI_FENCE ]] || answers
	[[ $job ]] || begin
	node=$(job_nodes "$job" | head -n 1) other=$(job_nodes "$job" | tail -n 1)
	before=$(job_restarts "$job")
	[[ $fault != itself ]] || what=kill met=went_off
	touch "$dir/faults/$what.$point"
	if is_checkpoint "$point"; then
		start_create
	else
		root scontrol requeue "$job"
		wait_for 60 job_restarted "$job" $((before + 1))
	fi
	wait_for 40 reaches "$met" "$point" ||
		{
			report 1 "$name: no process came to the point"
			rm -f "$dir"/faults/*
			job=''
			return
		}
	[[ $fault = itself ]] || "fault_of_$fault"
	rm -f "$dir"/faults/*
	[[ ${#then[@]} -eq 0 ]] || { sleep 0.5; "${then[@]}"; }
	if [[ $creating ]]; then
		wait "$creating" || status=$?
		[[ $status -le 1 ]] || report 1 "$name: create ends in time"
	fi
	# A rank that was killed in a checkpoint leaves the others waiting for it.
	[[ ! $spoiled && "$what $point" != kill\ MPI_* ]] || ! is_checkpoint "$point" ||
		root scontrol requeue "$job"
	at=$(progress)
	if ! check "$name: the job goes on, or comes back" wait_for 60 is_back; then
		diag "$(job_story "$job")"
		outcome="not back"
		job=''
		nodes_back
	else
		outcome="the job goes on"
		[[ $(job_restarts "$job") = "$before" ]] || outcome="the job is restored"
		case $creating:$status in
		:*) ;;
		*:0) outcome+=", the checkpoint is committed" ;;
		*) outcome+=", the checkpoint fails" ;;
		esac
	fi
	echo "| $point | $fault | $outcome |" >>"$table"
	[[ ! $died || ! $job ]] || wait_for 60 root srun -Q --immediate=5 -w "$other" -N1 true
}

# ---- which pairs

# Each point once; each fault in a checkpoint and in a restart, but none that ends a rank while
# others start MPI: that may hang slurmstepd (lib.sh). Pairs of a restart and those that end in one
# take longest, and are spread over the parts.
forty="
	MPI_FENCE+gpuckptd       RESTORE_BUILD+network       AGENT_PREPARE+gpuckptd
	RESTORE_BUILT+slurmctld  AGENT_PREPARED+frozen_node  AGENT_FREEZE+itself
	AGENT_FROZEN+network     AGENT_RESUME+slurmctld      RESTORE_FILES+gpuckptd
	AGENT_RESUMED+agent      RESTORE_RUN+clock           AGENT_WRITE+gpuckptd
	MPI_RESTORED+frozen_node AGENT_WRITTEN+mute_node     AGENT_COMMIT+itself
	AGENT_COMMITTED+network  WORKER_FROZEN+slurmctld     MPI_LOADED+agent
	WORKER_TAKEN+rank        WORKER_WRITE+node           WORKER_RESUMED+clock
	AGENT_FROZEN+deaf_node   WORKER_STAGED+agents        MPI_INITIALIZED+deaf_node
	MPI_ROUND+agent          RESTORE_BUILT+itself        MPI_READY+frozen_node
	MPI_REBUILT+mute_node    MPI_BRING_ON+stopped_agent  MPI_SAVE+agents
	MPI_QUIESCED+slurmctld   AGENT_COMMIT+gpuckptd       RESTORE_BUILT+agents
	AGENT_COMMITTED+clock    RESTORE_FILES+stopped_agent AGENT_RESUME+stopped_agent
	RESTORE_BUILD+rank       AGENT_COMMITTED+itself      RESTORE_BUILD+node
	AGENT_WRITE+frozen_node"

pairs=("$@") part=1 parts=1
if [[ ${1-} = */* ]]; then
	part=${1%/*} parts=${1#*/} pairs=()
fi
if [[ ${#pairs[@]} -eq 0 && ! ${GPUCKPT_LONG-} ]]; then
	read -rd '' -a pairs <<<"$forty"
elif [[ ${#pairs[@]} -eq 0 ]]; then
	for point in $checkpoint_points $restart_points; do
		for fault in itself $faults; do pairs+=("$point+$fault"); done
	done
fi
conf_with RestartFailures=1000 # a job's pairs of a restart have one commit
for ((i = part - 1; i < ${#pairs[@]}; i += parts)); do
	pair "${pairs[i]%+*}" "${pairs[i]#*+}"
done
[[ -z $job ]] || answers
finish
