# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# GROMACS ranks, each in a directory DIR/rank<n>, with a reference run in DIR/reference.
: "${top:?}" "${home:?}"

mdrun="gmx mdrun -s topol.tpr -deffnm md -ntmpi 1 -ntomp 1 -reprod -v -stepout 20"

# shellcheck disable=SC2034 # for the tests
no_gromacs="Debian's mdrun does not run on this processor"

# gromacs_input DIR RANKS: fails where Debian's mdrun does not run
gromacs_input()
{
	"$top/contrib/demo.d/water" "$1/reference" "$2" 2.5
	case $? in
	0) ;;
	77) return 1 ;;
	*) echo "Bail out! no input: $(tail -n 5 "$1/reference/box/water.log")"; exit 1 ;;
	esac
	cp -r "$1"/reference/rank? "$1"
	chown -R --reference="$home" "$1"
}

# gromacs_reference DIR RANKS STEPS: two at a time, not under Slurm
gromacs_reference()
{
	local r
	for ((r = 0; r < $2; r++)); do
		(cd "$1/reference/rank$r" && GMX_MAXBACKUP=-1 $mdrun -nsteps "$3" >progress 2>&1) &
		((r % 2 == 0)) || wait
	done
	wait
}

# gromacs_submit DIR RANKS STEPS [SRUN-OPTIONS]: prints the job
gromacs_submit()
{
	submit "$1" -N$(($2 < 2 ? 1 : 2)) -n"$2" <<-END
		#!/bin/bash
		export GMX_MAXBACKUP=-1
		srun ${4---gpu-ckpt} bash -c 'cd rank\$SLURM_PROCID &&
			exec $mdrun -nsteps $3 >progress 2>&1'
	END
}

# gromacs_reached DIR RANKS STEP: every rank has printed that it is at STEP or further
gromacs_reached()
{
	local r step
	for ((r = 0; r < $2; r++)); do
		step=$(tail -c 300 "$1/rank$r/progress" | tr '\r' '\n' |
			sed -n 's/^step \([0-9]*\).*/\1/p' | tail -n 1)
		[[ ${step:-0} -ge $3 ]] || return 1
	done
}

gromacs_compare()
{
	local r f
	for ((r = 0; r < $2; r++)); do
		for f in gro trr edr; do
			check "rank $r: md.$f is equal to the uninterrupted run's" \
				cmp "$1/reference/rank$r/md.$f" "$1/rank$r/md.$f"
		done
	done
}
