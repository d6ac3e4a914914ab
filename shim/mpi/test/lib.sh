# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For the tests that run MPI programs, sourced in the build folder. A program prints its own TAP
# (rank 0 of several); each run is one test here, and its output is shown if it failed.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
library=$PWD/libgpuckpt-mpi.so

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export PMIX_MCA_gds=hash # PMIx serves its other store to a rank once, not to a second MPI_Init

limit=300 # seconds of a run

plain() { # RANKS PROGRAM...: with Open MPI alone
	ranks=$1
	shift
	timeout $limit mpirun --oversubscribe -np "$ranks" "$@"
}

standin() { # RANKS PROGRAM...: under the stand-in
	ranks=$1
	shift
	timeout $limit mpirun --oversubscribe -np "$ranks" -x LD_PRELOAD="$library" "$@"
}

# With checkpoints in place, on 4 ranks. The folder $dir is emptied for their words.
cycles() { # [NAME=VALUE...] PROGRAM...
	rm -rf "${dir:?}"/*
	standin 4 env GPUCKPT_MPI_TEST="$dir" "$@"
}

alone() { # PROGRAM...: under the stand-in, one rank without mpirun
	LD_PRELOAD=$library timeout $limit "$@"
}

long_only() { # NAME COMMAND...: as passes, but only with GPUCKPT_LONG=1
	if [ -n "${GPUCKPT_LONG-}" ]; then
		passes "$@"
	else
		skip "$1" "only with GPUCKPT_LONG=1"
	fi
}

# The program with Open MPI alone. This tests the test program, so it runs only with GPUCKPT_LONG=1.
reference() { # NAME COMMAND...
	long_only "$@"
}

# A whole cycle initialises MPI a second time as the same rank of one mpirun. The server of PMIx
# 4.2 sometimes hangs then: a rank waits in MPI_Init for a fence that the other ranks have left
# (openpmix issues 3931 and 4113: fences have no generation, and a rank that leaves is removed
# from fences that others have begun; with one rank, too). This happens without gpuckpt too: if each
# rank runs one program of Open MPI after another, about one MPI_Init in 500 hangs on a loaded
# machine
# (mpirun -np 4 sh -c 'while ./program && meet_the_other_ranks; do :; done', PMIX_MCA_gds=hash).
# A restart under Slurm is a new step with its own server: test/cluster/mpi*.sh, restart_lammps.sh.
# A run that hangs is begun anew; one that fails in another way is not.
reloads() { # NAME COMMAND...
	name=$1
	shift
	long_only "$name" unless_it_hangs "$@"
}

unless_it_hangs() { # COMMAND...
	for _ in 1 2 3 4 5; do
		limit=150
		"$@"
		result=$?
		limit=300
		[ $result -eq 124 ] || return $result
		echo "PMIx hung"
	done
	return 124
}

says() { # NAME PATTERN COMMAND...: the command fails with a message that matches PATTERN
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
