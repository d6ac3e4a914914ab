#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints at random times and restarts in one lineage: GROMACS, python3 and a C program with 64
# threads run side by side, and give the answers of uninterrupted runs. Two rounds; ten in the long
# form.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=gromacs.sh
. "$test_dir/gromacs.sh"

rounds=${GPUCKPT_LONG:+10}
rounds=${rounds:-2}
steps=$((rounds * 6000)) # they run on while others are checkpointed
walks=$((rounds * 1500))
turns=$((rounds * 1000))
dir=$(work_dir)
gromacs=
crowd=$(program crowd)

! gromacs_input "$dir" 1 || gromacs=yes
[[ ! $gromacs ]] || gromacs_reference "$dir" 1 $steps
/usr/bin/python3 "$top/test/programs/walk.py" $walks "$dir/walk.want"
"$crowd" 64 $turns 0 >"$dir/crowd.want"
cp "$top/test/programs/walk.py" "$dir"
chmod 644 "$dir/walk.py"

jobs=()
[[ ! $gromacs ]] || jobs+=("$(gromacs_submit "$dir" 1 $steps)")
walk_job=$(submit "$dir" -n1 --export="ALL,WALK_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt /usr/bin/python3 walk.py $walks walk.out
END
)
crowd_job=$(submit "$dir" -n1 --export="ALL,CROWD_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $crowd 64 $turns 5 >crowd.out'
END
)
jobs+=("$walk_job" "$crowd_job")
RANDOM=$$
diag "seed $$"

# Random, so that checkpoints and restarts come at any point of the programs.
nap() { sleep "$((RANDOM % 2)).$((RANDOM % 10))"; }

# lineage_round N: a checkpoint at a random time, and a requeue some time later: every second time
# `scontrol requeue`, which loses the work since the commit, else `gpuckpt requeue`.
lineage_round()
{
	local j
	for j in "${jobs[@]}"; do
		check "round $1: job $j runs" wait_ready "$j" 60
	done
	nap
	for j in "${jobs[@]}"; do
		check "round $1: checkpoint of job $j" alice gpuckpt create "$j"
	done
	nap
	for j in "${jobs[@]}"; do
		if (($1 % 2)); then
			check "round $1: scontrol requeue $j" root scontrol requeue "$j"
		else
			check "round $1: gpuckpt requeue $j" alice gpuckpt requeue "$j"
		fi
	done
	for j in "${jobs[@]}"; do
		check "round $1: job $j is started again" wait_for 60 job_restarted "$j" "$1"
	done
}

for ((i = 1; i <= rounds; i++)); do
	lineage_round $i
done
alice touch "$dir/enough"
for j in "${jobs[@]}"; do
	check "job $j ends" wait_job "$j" COMPLETED 300
	is "$(job_restarts "$j")" "$rounds" "job $j was restarted $rounds times"
done
if [[ $gromacs ]]; then
	gromacs_compare "$dir" 1
else
	report 0 "GROMACS # SKIP $no_gromacs"
fi
check "python3 gives the same answer" cmp "$dir/walk.want" "$dir/walk.out"
check "64 threads give the same answer" cmp "$dir/crowd.want" "$dir/crowd.out"
finish
