#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAMMPS, four ranks on two nodes that talk by MPI, through the death of a node, and spread over
# the nodes otherwise than before: the same thermodynamic output and final dump to the bit. With
# GPUCKPT_LONG=1, 30 restarts in one lineage.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=lammps.sh
. "$test_dir/lammps.sh"

restarts=${GPUCKPT_LONG:+30}
restarts=${restarts:-2}
steps=$((1000 + restarts * 1000))
dir=$(work_dir)
lammps_reference "$dir" $steps
job=$(lammps_submit "$dir" $steps --gpu-ckpt cyclic)

create_and_go_on()
{
	local step
	step=$(lammps_step "$dir")
	check "round $1: the ranks are on their way" wait_for 60 lammps_reached "$dir" $((step + 60))
	check "round $1: create" alice gpuckpt create "$job"
	step=$(lammps_step "$dir")
	check "round $1: the ranks go on" wait_for 60 lammps_reached "$dir" $((step + 60))
}

# The first round kills the node of the job's script, the others are requeued.
restart()
{
	local node
	if [[ $1 -eq 1 ]]; then
		node=$(root squeue -h -j "$job" -o %B)
		"$cluster" node-kill "${node#n}"
	else
		check "round $1: scontrol requeue" root scontrol requeue "$job"
	fi
	check "round $1: the job is started again" wait_for 90 job_restarted "$job" "$1"
	[[ $1 -ne 1 ]] || "$cluster" node-start "${node#n}"
	check "round $1: the ranks run again" wait_ready "$job" 60
}

check "the step comes under gpuckpt's care" wait_ready "$job" || finish
check "able" alice gpuckpt able "$job"
for ((i = 1; i <= restarts; i++)); do
	create_and_go_on $i
	restart $i
done
check "the job ends" wait_job "$job" COMPLETED 300
is "$(job_restarts "$job")" "$restarts" "the job was restarted $restarts times"
lammps_compare "$dir"
nodes_back
finish
