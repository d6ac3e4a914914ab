#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAMMPS, four ranks on two nodes that talk by MPI. A node dies; then the job is restarted again and
# again on other nodes with the ranks spread differently. Thermodynamic output and final dump are
# the same to the bit, and memory does not grow with the restarts. With GPUCKPT_LONG=1, 30 restarts
# in one lineage.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=lammps.sh
. "$test_dir/lammps.sh"

restarts=${GPUCKPT_LONG:+30}
restarts=${restarts:-2}
steps=$((1500 + restarts * 500))
dir=$(work_dir)
lammps_reference "$dir" $steps
lammps_from='<' # it must not read its script a second time
job=$(lammps_submit "$dir" $steps --gpu-ckpt block cyclic plane=3)

create_and_go_on()
{
	local step
	step=$(lammps_step "$dir")
	check "round $1: the ranks compute" wait_for 60 lammps_reached "$dir" $((step + 60))
	check "round $1: create" alice gpuckpt create "$job"
	step=$(lammps_step "$dir")
	check "round $1: the ranks go on" wait_for 60 lammps_reached "$dir" $((step + 60))
}

# restart ROUND: the first round kills the node of the job's script. Each other round excludes
# another node of the three, so that the job seldom gets the same two nodes as before.
restart()
{
	local node
	if [[ $1 -eq 1 ]]; then
		node=$(root squeue -h -j "$job" -o %B)
		node_dies "${node#n}"
	else
		check "round $1: scontrol requeue" root scontrol requeue "$job"
		root scontrol update jobid="$job" excnodelist="n$(($1 % 3 + 1))"
	fi
	check "round $1: the job is started again" wait_for 90 job_restarted "$job" "$1"
	[[ $1 -ne 1 ]] || "$cluster" node-start "${node#n}"
	check "round $1: the ranks run again" wait_ready "$job" 60
}

# ---- growth

# weigh: MiB in the image of the newest commit; then the largest value of any rank of each:
# descriptors, mappings, threads, KiB of address space, resident KiB
weigh()
{
	local p
	alice gpuckpt list "$job" --json |
		jq -r '[.steps[].commits[] | [.seq, (.put / 1048576 | floor)]] | max_by(.[0])[1]'
	local kib='s/^Vm\(Size\|RSS\):[^0-9]*\([0-9]*\).*/\2/p'
	for p in $(root pgrep -x lmp); do
		echo "$(root ls "/proc/$p/fd" | wc -l) $(root cat "/proc/$p/maps" | wc -l)" \
			"$(root ls "/proc/$p/task" | wc -l)" \
			"$(root sed -n "$kib" "/proc/$p/status" | paste -sd' ')"
	done | awk '{ for (i = 1; i <= 5; i++) if ($i > most[i]) most[i] = $i }
		END { print most[1], most[2], most[3], most[4], most[5] }'
}

# grown COLUMN: by how many percent it grew from the second round, after one restart, to the last
grown()
{
	awk -v c="$1" 'NR == 2 { from = $c }
		END { print int(100 * ($c / from - 1)) }' "$dir/weights"
}

check "the step runs under gpuckpt" wait_ready "$job" || finish
check "the ranks compute" wait_for 60 lammps_reached "$dir" 10
check "able: the step can be checkpointed" wait_for 20 alice gpuckpt able "$job"
for ((i = 1; i <= restarts; i++)); do
	create_and_go_on $i
	weigh | paste -sd' ' >>"$dir/weights"
	diag "round $i: nodes $(job_nodes "$job" | paste -sd' '); image MiB, descriptors," \
		"mappings, threads, KiB, resident KiB: $(tail -n 1 "$dir/weights")"
	restart $i
done
names=("" "the image" "open descriptors" "mappings" "threads" "address space" "resident memory")
for ((i = 1; i <= 6 && restarts > 2; i++)); do
	check "${names[i]} did not grow with the restarts: $(grown $i) %" test "$(grown $i)" -le 3
done
check "the job ends" wait_job "$job" COMPLETED 300
is "$(job_restarts "$job")" "$restarts" "the job was restarted $restarts times"
lammps_compare "$dir"
nodes_back
finish
