#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gck_checkpoint(): ranks that ask for a checkpoint of their step themselves, alone and all together,
# around MPI, beside interval=, in C, Fortran and Python, with device memory (GPUCKPT_CUDA_PROGRAMS has cuda_asker);
# restarts out of it; and what keeps one from being had.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }

prefix=$(cat "$GPUCKPT_LAB/etc/prefix")
mkdir -p "$GPUCKPT_LAB/work/bin"
asker=$GPUCKPT_LAB/work/bin/asker
mpicc -O2 -g -I"$prefix/include" -o "$asker" "$top/test/programs/asker.c" -L"$prefix/lib" \
	-Wl,-rpath,"$prefix/lib" -lgpuckpt -pthread || { echo "Bail out! asker cannot be built"; exit 1; }

# start OPTIONS: the job runs; a step that fails has it requeued
start()
{
	dir=$(work_dir) line=0
	job=$(submit "$dir" -N2 -n4 <<-END
		#!/bin/bash
		srun --mpi=pmix --kill-on-bad-exit=1 --gpu-ckpt=keep=20$1 $asker $dir ||
			scontrol requeue \$SLURM_JOB_ID
	END
	)
	wait_ready "$job" 40
}

# say WORDS...: the ranks' next line
say()
{
	line=$((line + 1))
	echo "$*" >"$dir/new"
	mv "$dir/new" "$dir/go.$line"
}

results() { sed -n "s/^$line //p" "$dir/log.$1" 2>/dev/null; }
has() { [[ $(results "$1" | wc -l) -ge $2 ]]; }
all_have() { has 0 "$1" && has 1 "$1" && has 2 "$1" && has 3 "$1"; }
newest_results() { for r in 0 1 2 3; do results $r | tail -n 1; done | sort -u; }
all_returned_1() { all_have 1 && [[ $(newest_results) = "1 " ]]; }
ncommits() { commits "$job" | wc -l; }
reasons() { alice gpuckpt list "$job" --json | jq -r '.steps[].commits[].reason' | sort -u; }

# returns RANK TEXT NAME: the rank's call comes back with TEXT
returns()
{
	wait_for 40 has "$1" 1
	like "$(results "$1")" "$2" "$3" || diag "$(alice gpuckpt status "$job" --json 2>&1)"
}

# all_return RESULT NAME: in every rank, of this line
all_return()
{
	wait_for 60 all_have 1
	is "$(for r in 0 1 2 3; do results $r; done | sort -u)" "$1 " "$2"
}

# ---- one rank, and all; before MPI_Init, in MPI, after MPI_Finalize

start ""
report $? "a step whose ranks ask"
say one 2
returns 2 "^0 $" "one rank asks before MPI_Init"
is "$(ncommits)" 1 "and there is one checkpoint"
is "$(reasons)" "asked by rank 2" "which says who asked"
say init
say one 0
returns 0 "^0 $" "one rank asks while it is in MPI, and others are"
is "$(ncommits)" 2 "there is another"
say all 0
all_return 0 "all ranks ask at once"
is "$(ncommits)" 3 "and there is one checkpoint"
say all 3000
all_return 0 "a rank that calls when the others' checkpoint is long committed returns"
is "$(ncommits)" 4 "and there is one checkpoint"
say threads 1 4
wait_for 40 has 1 4
is "$(results 1 | sort -u)" "0 " "four threads of a rank ask at once"
n=$(ncommits)
[[ $n -eq 5 || $n -eq 6 ]]
report $? "and share one checkpoint, or the late ones a second" || diag "$n commits"

# ---- restarts out of it

say die 25000
check "rank 0 is killed after its call, and the job is requeued" wait_for 60 job_restarted "$job" 1
wait_for 60 all_returned_1
is "$(results 0)" "0 "$'\n'"1 " "rank 0's call returned, and returns again in the restored process"
is "$(results 3)" "1 " "the call of a rank that was not in it yet returns the same"
is "$(newest_results)" "1 " "and that of all others"
is "$(ncommits)" $((n + 1)) "without another checkpoint"
for r in 0 1 2 3; do rm "$dir/log.$r"; done
check "the same commit is restarted from again" root scontrol requeue "$job"
check "the job is started again" wait_for 60 job_restarted "$job" 2
wait_for 60 all_have 1
is "$(for r in 0 1 2 3; do results $r; done | sort -u)" "1 " "the call returns once more in each rank"
check "they run" wait_ready "$job" 40
say one 3
returns 3 "^0 $" "a call after that is a new one"
is "$(ncommits)" $((n + 2)) "with a checkpoint of its own"
say finalize
say one 1
returns 1 "^0 $" "one rank asks after MPI_Finalize"

# ---- none is to be had

alice gpuckpt disable "$job" >/dev/null
say one 1
returns 1 "^-1 .*gpuckpt enable" "checkpoints are disabled: the call says so"
alice gpuckpt enable "$job" >/dev/null
"$cluster" kill gpuckptd
say one 1
returns 1 "^-107 .*gpuckptd. cannot be reached" "without a coordinator the call returns in the end"
say one 0
sleep 1
"$cluster" start gpuckptd
returns 0 "^0 $" "and one whose coordinator comes back is done"
# Nothing is under way without a coordinator, so what is killed is the agent, and no checkpoint is lost.
"$cluster" kill gpuckptd
say one 2
sleep 1
for node in $(job_nodes "$job"); do
	root -n "${node#n}" pkill -KILL --newest -x gpuckpt-agent
done
"$cluster" start gpuckptd
returns 2 "^0 $" "and one whose agent is killed is answered by the next"
say end
check "the job is unharmed" wait_job "$job" COMPLETED 40

# ---- interval= beside

start ",interval=2s"
report $? "another step, with interval="
for i in 1 2 3; do
	say all 0
	all_return 0 "checkpoints by interval and by call, $i"
done
say end
check "the job ends well" wait_job "$job" COMPLETED 40

# ---- in other languages, and with device memory

# asks NAME OPTIONS COMMAND...: a job of one rank, which asks once
asks()
{
	local name=$1 options=$2
	shift 2
	dir=$(work_dir)
	job=$(submit "$dir" -N1 -n1 <<-END
		#!/bin/bash
		export PYTHONPATH=$python_dir LD_LIBRARY_PATH=$fake
		srun --gpu-ckpt=$options $* $dir
	END
	)
	check "$name: its call returns" wait_for 60 grep -qx "0 *" "$dir/results" ||
		diag "$(cat "$dir/out" "$dir/results" 2>&1)"
	is "$(reasons)" "asked by rank 0" "$name: there is a checkpoint, for it asked"
	root scontrol requeue "$job"
	check "$name: the job is started again" wait_for 60 job_restarted "$job" 1
	check "$name: the call returns once more, in a restart" wait_for 60 grep -qx "1 *" "$dir/results" ||
		diag "$(cat "$dir/out" "$dir/results")"
	touch "$dir/end"
	check "$name: the job ends" wait_job "$job" COMPLETED 40
	is "$(wc -l <"$dir/results")" 2 "$name: the call has returned no more often"
}

fake=$GPUCKPT_LAB/work/bin/fake
python_dir=$(dirname "$(find "$prefix/lib" -name gpuckpt.py -print -quit)")
if command -v gfortran >/dev/null; then
	gfortran -J "$GPUCKPT_LAB/work/bin" -o "$asker.fortran" "$prefix/include/gpuckpt.f90" \
		"$top/test/programs/asker.f90" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lgpuckpt ||
		{ echo "Bail out! asker.f90 cannot be built"; exit 1; }
	asks Fortran keep=2 "$asker.fortran"
fi
cp "$top/test/programs/asker.py" "$GPUCKPT_LAB/work/bin"
asks Python keep=2 python3 "$GPUCKPT_LAB/work/bin/asker.py"
if [[ -x ${GPUCKPT_CUDA_PROGRAMS-}/cuda_asker ]]; then
	cp "$GPUCKPT_CUDA_PROGRAMS/cuda_asker" "$GPUCKPT_LAB/work/bin"
	install -D "$GPUCKPT_CUDA_PROGRAMS/libcuda-fake.so" "$fake/libcuda.so.1"
	asks CUDA cuda=nvidia "$GPUCKPT_LAB/work/bin/cuda_asker"
fi
finish
