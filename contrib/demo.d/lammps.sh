# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The demo's program: LAMMPS, four ranks of one program that talk by MPI.
: "${here:?}" "${home:?}" "${dir:=}" "${steps:=0}"
# shellcheck disable=SC2034 # for main and job.sh
bar_name=LAMMPS progress_log=log.lammps compared="energies and final dump"
edge=14

job_script()
{
	cat <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		srun --mpi=pmix $1 lmp -in melt.in -log log.lammps -screen none \\
			-var edge $edge -var steps $steps
	END
}

# The step that all ranks have reached, from LAMMPS's output.
steps_of_ranks()
{
	local step
	step=$({ sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p' "$dir/log.lammps" 2>/dev/null || :; } |
		tail -n 1)
	echo "${step:-0}"
}

make_input()
{
	say "making the input: a Lennard-Jones crystal of $((4 * edge ** 3)) atoms that melts"
	install -D -m 644 -t "$home/input" "$here/melt.in"
	chown -R --reference="$home" "$home"
}

# The number of steps that the four ranks do in a minute on this machine.
choose_steps()
{
	local rate
	steps=300
	run_job calibration
	follow_until_end
	rate=$(awk '/^Loop time/ { print 300 / $4 }' "$dir/log.lammps")
	steps=$(calc "int(60 * $rate / 100 + 1) * 100")
}

thermo() { sed -n '/^Step/,/^Loop/{/^Loop/d;p}' "$1/log.lammps"; }

# shellcheck disable=SC2034 # equal: for main
compare()
{
	equal=yes
	cmp "$home/reference/final.dump" "$home/checkpointed/final.dump" || equal=NO
	cmp <(thermo "$home/reference") <(thermo "$home/checkpointed") || equal=NO
}
