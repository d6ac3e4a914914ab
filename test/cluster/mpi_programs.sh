#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other programs with MPI: Python's mpi4py, which loads the library at run time; programs of another
# MPI or of a later Open MPI; a program that spawns processes.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=mpi_lib.sh
. "$test_dir/mpi_lib.sh"

agents_there()
{
	alice gpuckpt status "$1" --json |
		jq -e '.steps[] | .state == "running" and (.nodes | length > 0 and all(.connected))'
}
is_named() { [[ $(alice gpuckpt able -v "$1" 2>&1) = *"$2"* ]]; }

# ---- mpi4py

# A copy that users can read.
walk=$GPUCKPT_LAB/work/bin/mpi4py_walk.py
install -D -m 755 "$top/test/programs/mpi4py_walk.py" "$walk"

# python_walk LEVEL [SCRIPT]: mpi4py with this level of thread support, started by the script
python_walk()
{
	local dir want job i name="mpi4py, $1${2:+, in a script}"
	export MPI4PY_RC_THREAD_LEVEL=$1
	dir=$(work_dir)
	mkdir "$dir/want"
	alice touch "$dir/hold"
	want=$(OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe -np 4 \
		/usr/bin/python3 "$walk" 800 0 "$dir/want" 2>/dev/null)
	job=$(mpi_job "$dir" 4 "" "--mpi=pmix --export=ALL,MPI4PY_RC_THREAD_LEVEL=$1" \
		${2:+"$2"} /usr/bin/python3 "$walk" 800 30 "$dir")
	check "$name: the step runs under gpuckpt" wait_ready "$job" || return
	check "$name: it computes" wait_for 20 reached "$dir" 40 || return
	for i in 1 2 3; do
		check "$name: create $i" alice gpuckpt create "$job"
		check "$name: it goes on" \
			wait_for 20 reached "$dir" $(($(progress "$dir") + 1))
	done
	check "$name: requeue" alice gpuckpt requeue "$job" || return
	check "$name: Slurm starts the job again" wait_for 60 job_restarted "$job" 1
	check "$name: the ranks run again" wait_ready "$job" 60
	check "$name: create after the restart" alice gpuckpt create "$job"
	rm "$dir/hold"
	check "$name: the job ends" wait_job "$job" COMPLETED 120
	is "$(answers "$dir")" "$want" "$name: the digest is the uninterrupted run's"
}

if /usr/bin/python3 -c 'import mpi4py, numpy' 2>/dev/null; then
	python_walk multiple
	[[ -z ${GPUCKPT_LONG-} ]] || python_walk serialized
fi

# ---- a script that starts the program without exec: the rank is the script

script=$GPUCKPT_LAB/work/bin/script
cat >"$script" <<'END'
#!/bin/bash
"$@"
status=$?
# The program gets this start's variables, and not those that the shell has kept.
now=$(printenv GPUCKPT_PID) task=$(printenv SLURM_TASK_PID)
echo "script $status $((10#$now == 10#$task)) $((10#$now != 10#$GPUCKPT_PID))"
until=${RING_UNTIL%/*}/end
exec bash -c 'echo "executed $((10#$GPUCKPT_PID == 10#$SLURM_TASK_PID))"
	until [[ -e $0 ]]; do sleep 0.1; done' "$until"
END
chmod 755 "$script"
scripts() { [[ $(grep -c ^executed "$dir/answers") -eq 4 ]]; }
said() { sed -n "s/^$1 //p" "$dir/answers" | sort | uniq -c | xargs; }

ring=$(CC=mpicc program ring)
dir=$(work_dir)
job=$(mpi_job "$dir" 4 "" --mpi=pmix "$script" "$ring" 1000000 2000)
check "a script: the step runs under gpuckpt" wait_ready "$job"
check "a script: its programs talk" wait_for 40 reached "$dir" 100
check "a script: create, while messages are under way" alice gpuckpt create "$job"
check "a script: they go on" wait_for 20 reached "$dir" $(($(progress "$dir") + 100))
check "a script: requeue" alice gpuckpt requeue "$job"
check "a script: Slurm starts the job again" wait_for 60 job_restarted "$job" 1
check "a script: the ranks run again" wait_ready "$job" 60
check "a script: create after the restart" alice gpuckpt create "$job"
alice touch "$dir/enough"
check "a script: MPI's programs end, and it executes another" wait_for 60 scripts
check "a script: which is a rank: create" alice gpuckpt create "$job"
alice touch "$dir/end"
check "a script: the job ends" wait_job "$job" COMPLETED 60
is "$(said script)" "4 0 1 1" "a script: what it executes has this start's variables"
is "$(said executed)" "4 1" "a script: also by exec"
is "$(answers "$dir" | grep ^rank)" "$(ring=$ring wanted "$dir" 4)" \
	"a script: the answers are those of an uninterrupted run"

# The same with mpi4py, which loads MPI at run time.
if /usr/bin/python3 -c 'import mpi4py, numpy' 2>/dev/null; then
	printf '#!/bin/bash\n"$@"\nexit $?\n' >"$script"
	python_walk multiple "$script"
fi

# ---- not Open MPI 4: a library of another name or version. The program prints the library's name.

# aside NAME LIBRARY REASON [FLAG...]: the step runs with LIBRARY, and create is refused for REASON
aside()
{
	local name=$1 library=$2 reason=$3 bin=$GPUCKPT_LAB/work/bin/$2 dir job
	local source=$top/shim/mpi/test/reexec.c
	shift 3
	mkdir -p "$bin"
	cc -shared -fPIC -DOTHER "$@" "-Wl,-soname,$library" -o "$bin/$library" "$source"
	cc -o "$bin/program" "$source" "$bin/$library" "-Wl,-rpath,$bin"
	dir=$(work_dir)
	job=$(mpi_job "$dir" 2 "" env ASIDE_SECONDS=300 "$bin/program")
	check "$name: the step runs under gpuckpt" wait_for 30 agents_there "$job"
	check "$name: able gives the reason why it cannot be checkpointed" \
		wait_for 20 is_named "$job" "$reason" || diag "$(alice gpuckpt able -v "$job" 2>&1)"
	check_not "$name: create is refused" alice gpuckpt create "$job"
	end_job "$job"
	dir=$(work_dir)
	job=$(mpi_job "$dir" 2 "" "$bin/program")
	check "$name: the program runs to its end" wait_job "$job" COMPLETED 30
	is "$(grep -c "^$library" "$dir/answers")" 2 "$name: with its own library"
}

aside "another MPI" libmpich.so.12 "libmpich.so.12 is not Open MPI"
aside "a later Open MPI" libmpi.so.40 "Open MPI 5.0.3" -DLATER

# ---- spawned processes: Slurm's PMIx starts none, but a port can be open

spawn=$(CC=mpicc program spawn)
dir=$(work_dir)
touch "$dir/close" "$dir/end"
alice srun -N2 -n2 --chdir="$dir" --mpi=pmix "$spawn" 2>/dev/null >"$dir/want"
rm "$dir/close" "$dir/end"
job=$(mpi_job "$dir" 2 "" --mpi=pmix "$spawn")
check "spawn: able names the open port" wait_for 30 is_named "$job" "an MPI port"
check_not "spawn: create is refused" alice gpuckpt create "$job"
touch "$dir/close"
check "spawn: once it is closed the step can be checkpointed" wait_ready "$job"
check "spawn: create" alice gpuckpt create "$job"
check "spawn: requeue" alice gpuckpt requeue "$job"
check "spawn: the ranks run again" wait_for 60 job_restarted "$job" 1
touch "$dir/end"
check "spawn: the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answers")" "$(cat "$dir/want")" "spawn: MPI returns what it returns without gpuckpt"

finish
