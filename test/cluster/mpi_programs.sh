#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that come to MPI in other ways: Python's mpi4py, which loads it at run time; one of another
# MPI; one that spawns processes.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }

answers() { sort "$1/answers"; }
reached() { [[ $(sed -n 's/^step //p' "$1/out" | tail -n 1) -ge $2 ]]; }

# mpi_job DIR RANKS SRUN-ARGS...: answers in DIR/answers, progress in DIR/out
mpi_job()
{
	local dir=$1 ranks=$2
	shift 2
	submit "$dir" -N2 -n"$ranks" <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=pt2pt # windows over TCP
		spread=block
		[[ -z \${SLURM_RESTART_COUNT-} ]] || spread=cyclic
		srun --distribution=\$spread --gpu-ckpt $* >>$dir/answers
	END
}

agents_there()
{
	alice gpuckpt status "$1" --json | jq -e '.steps[] | .state == "running" and all(.nodes[]; .connected)'
}
is_named() { [[ $(alice gpuckpt able "$1" 2>&1) = *"$2"* ]]; }

# ---- mpi4py

# Where users can read it.
walk=$GPUCKPT_LAB/work/bin/mpi4py_walk.py
install -D -m 755 "$top/test/programs/mpi4py_walk.py" "$walk"

# python_walk LEVEL: of threads
python_walk()
{
	local dir want job i
	export MPI4PY_RC_THREAD_LEVEL=$1
	dir=$(work_dir)
	mkdir "$dir/want"
	want=$(OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe -np 4 \
		/usr/bin/python3 "$walk" 300 0 "$dir/want" 2>/dev/null)
	job=$(mpi_job "$dir" 4 "--mpi=pmix --export=ALL,MPI4PY_RC_THREAD_LEVEL=$1" \
		/usr/bin/python3 "$walk" 300 30 "$dir")
	check "mpi4py, $1: under gpuckpt's care" wait_ready "$job" || return
	check "mpi4py, $1: it is on its way" wait_for 20 reached "$dir" 40 || return
	for i in 1 2 3; do
		check "mpi4py, $1: create $i" alice gpuckpt create "$job"
		sleep 0.3
	done
	check "mpi4py, $1: requeue" alice gpuckpt requeue "$job" || return
	check "mpi4py, $1: Slurm starts the job again" wait_for 60 job_restarted "$job" 1
	check "mpi4py, $1: the ranks run again" wait_ready "$job" 60
	check "mpi4py, $1: create after the restart" alice gpuckpt create "$job"
	check "mpi4py, $1: the job ends" wait_job "$job" COMPLETED 120
	is "$(answers "$dir")" "$want" "mpi4py, $1: the digest is the uninterrupted run's"
}

if /usr/bin/python3 -c 'import mpi4py, numpy' 2>/dev/null; then
	python_walk multiple
	[[ -z ${GPUCKPT_LONG-} ]] || python_walk serialized
fi

# ---- another MPI: not MPICH itself, but a library of its name

# Its program prints the name of the library that answered it.
other=$GPUCKPT_LAB/work/bin/other
mkdir -p "$other"
cc -shared -fPIC -DOTHER -Wl,-soname,libmpich.so.12 -o "$other/libmpich.so.12" "$top/shim/mpi/test/aside.c"
cc -o "$other/program" "$top/shim/mpi/test/aside.c" "$other/libmpich.so.12" "-Wl,-rpath,$other"
dir=$(work_dir)
job=$(mpi_job "$dir" 2 env ASIDE_SECONDS=300 "$other/program")
check "another MPI: under gpuckpt's care" wait_for 30 agents_there "$job"
check "another MPI: it is named" wait_for 20 is_named "$job" "libmpich.so.12 is not Open MPI"
check_not "another MPI: and refused" alice gpuckpt create "$job"
end_job "$job"
dir=$(work_dir)
job=$(mpi_job "$dir" 2 "$other/program")
check "another MPI: the program runs to its end" wait_job "$job" COMPLETED 30
is "$(grep -c "^libmpich.so.12" "$dir/answers")" 2 "another MPI: with its own library"

# ---- processes of other worlds: Slurm's PMIx starts none

spawn=$(CC=mpicc program spawn)
dir=$(work_dir)
touch "$dir/close" "$dir/end"
alice srun -N2 -n2 --chdir="$dir" --mpi=pmix "$spawn" 2>/dev/null >"$dir/want"
rm "$dir/close" "$dir/end"
job=$(mpi_job "$dir" 2 --mpi=pmix "$spawn")
check "spawn: a port is open, and named" wait_for 30 is_named "$job" "an MPI port"
check_not "spawn: and refused" alice gpuckpt create "$job"
touch "$dir/close"
check "spawn: once it is closed nothing stands in the way" wait_ready "$job"
check "spawn: create" alice gpuckpt create "$job"
check "spawn: requeue" alice gpuckpt requeue "$job"
check "spawn: the ranks run again" wait_for 60 job_restarted "$job" 1
touch "$dir/end"
check "spawn: the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answers")" "$(cat "$dir/want")" "spawn: MPI answers what it does without gpuckpt"

finish
