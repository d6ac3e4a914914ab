# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# LAMMPS: four ranks that talk by MPI. The job runs in DIR, the reference run in DIR/reference.
: "${top:?}" "${home:?}"
need_mpi
lammps_edge=12 # 6,912 atoms

# lammps_command DIR STEPS: with lammps_from='<' for a shell, and LAMMPS reads standard input
lammps_from='-in '
lammps_command()
{
	echo "lmp $lammps_from$1/melt.in -log log.lammps -screen none -var edge $lammps_edge" \
		"-var steps $2"
}

# lammps_reference DIR STEPS: with Debian's mpirun, not under Slurm
lammps_reference()
{
	local words
	mkdir "$1/reference"
	install -m 644 "$top/contrib/demo.d/melt.in" "$1"
	read -ra words <<<"$(lammps_command "$1" "$2")"
	(cd "$1/reference" && OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root \
		--oversubscribe -np 4 "${words[@]}" >mpirun.log 2>&1) && return
	echo "Bail out! LAMMPS does not run here: $(tail -n 5 "$1/reference/mpirun.log")"
	exit 1
}

# lammps_submit DIR STEPS [SRUN-OPTION [DISTRIBUTION...]]: prints the job. The ranks run on two
# whole nodes; the first run and each restart take the next DISTRIBUTION (srun's option), in turn.
lammps_submit()
{
	submit "$1" -N2 -n4 --exclusive <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		spreads=(${4-block} ${*:5})
		srun --mpi=pmix --distribution=\${spreads[SLURM_RESTART_COUNT % \${#spreads[@]}]} \
			${3---gpu-ckpt} $(lammps_command "$1" "$2")
	END
}

lammps_step() { sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p' "$1/log.lammps" 2>/dev/null | tail -n 1; }
lammps_reached() { [[ $(lammps_step "$1") -ge $2 ]]; }

# The lines of the thermodynamic output; the rest of the log contains times.
lammps_thermo() { sed -n '/^Step/,/^Loop/{/^Loop/d;p}' "$1/log.lammps"; }

lammps_compare()
{
	check "the final dump is equal to the uninterrupted run's" \
		cmp "$1/reference/final.dump" "$1/final.dump"
	is "$(lammps_thermo "$1")" "$(lammps_thermo "$1/reference")" \
		"the thermodynamic output is equal to the uninterrupted run's"
}
