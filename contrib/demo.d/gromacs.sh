# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The demo's program: GROMACS, four ranks side by side, each in a directory of its own.
: "${here:?}" "${home:?}" "${dir:=}" "${steps:=0}"
# shellcheck disable=SC2034 # for main and job.sh
bar_name="mdrun, slowest rank" progress_log=rank0/progress compared="coordinates and energies"

job_script()
{
	cat <<-END
		#!/bin/bash
		export GMX_MAXBACKUP=-1
		srun $1 bash -c 'cd rank\$SLURM_PROCID && exec gmx mdrun -s topol.tpr -deffnm md \
			-ntmpi 1 -ntomp 1 -reprod -nsteps $steps -v -stepout 5 >progress 2>&1'
	END
}

# The step that each rank has reached, from mdrun's output, which may not be there yet.
steps_of_ranks()
{
	local r
	for r in 0 1 2 3; do
		{ tail -c 2000 "$dir/rank$r/progress" 2>/dev/null || :; } | tr '\r' '\n' |
			awk -v all="$steps" '
				/^step [0-9]/ { s = $2 }
				/^Performance:/ { s = all }
				END { print s + 0 }'
	done
}

make_input()
{
	say "making a box of water: gmx solvate, steepest descent, four sets of velocities"
	"$here/water" "$home/input" 4 || fail "no input was made" "$home/input/box/water.log"
	chown -R --reference="$home" "$home"
}

# The number of steps that the four ranks do in a minute on this machine.
choose_steps()
{
	local rate
	steps=500
	run_job calibration
	follow_until_end
	rate=$(awk '/^ *Time:/ { print 500 / $3 }' "$dir/rank0/md.log")
	steps=$(calc "int(60 * $rate / 500 + 1) * 500")
}

# shellcheck disable=SC2034 # equal: for main
compare()
{
	local r f
	equal=yes
	for r in 0 1 2 3; do
		for f in md.gro md.trr md.edr; do
			cmp "$home/reference/rank$r/$f" "$home/checkpointed/rank$r/$f" || equal=NO
		done
	done
}
