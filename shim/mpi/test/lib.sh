# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For the tests that run MPI programs, sourced in the build folder. A program prints TAP of its own
# (rank 0 of several); each run of one is one test here, its output shown if it failed.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
library=$PWD/libgpuckpt-mpi.so

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export PMIX_MCA_gds=hash # mpirun's PMIx gives its other store to a rank once, not to a second MPI_Init

plain() { # RANKS PROGRAM...: without the stand-in
	ranks=$1
	shift
	timeout 300 mpirun --oversubscribe -np "$ranks" "$@"
}

standin() { # RANKS PROGRAM...: with it
	ranks=$1
	shift
	timeout 300 mpirun --oversubscribe -np "$ranks" -x LD_PRELOAD="$library" "$@"
}

alone() { # PROGRAM...: with it, one rank, without mpirun
	LD_PRELOAD=$library timeout 300 "$@"
}

# A whole cycle initialises MPI a second time as the same rank of one mpirun, which PMIx 4.2's server
# does not always let end: a rank waits in MPI_Init for a fence that the others have left (openpmix
# issues 3931 and 4113: a server's fences have no generation, and who leaves is taken out of those that
# others have begun). It takes nothing of gpuckpt: of programs of Open MPI alone, run one after the
# other in each rank, each with a whole MPI_Init to MPI_Finalize, about one in 500 hangs on a loaded
# machine: mpirun -np 4 sh -c 'while ./program && meet_the_other_ranks; do :; done', PMIX_MCA_gds=hash.
# A restart under Slurm is a new step, with a server of its own: test/cluster/mpi*.sh, restart_lammps.sh.
reloads() { # NAME COMMAND...: as passes, in the long form only
	if [ -n "${GPUCKPT_LONG-}" ]; then
		passes "$@"
	else
		skip "$1" "in the long form only (GPUCKPT_LONG=1)"
	fi
}

says() { # NAME PATTERN COMMAND...: it fails, and says so
	name=$1
	pattern=$2
	shift 2
	result=1
	if ! output=$("$@" 2>&1 </dev/null); then
		printf '%s\n' "$output" | grep -q -e "$pattern"
		result=$?
	fi
	check $result "$name" || show "$output"
}

command -v mpirun >/dev/null || skip_all "no mpirun: install openmpi-bin"
