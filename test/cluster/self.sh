#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gck_checkpoint(): ranks ask for a checkpoint of their step themselves: one rank, or all of them;
# before, in and after MPI; beside interval=; in C, Fortran and Python; with device memory
# (GPUCKPT_CUDA_PROGRAMS has cuda_asker). Restarts from within the call, and calls that fail.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need_mpi

prefix=$(cat "$GPUCKPT_LAB/etc/prefix")
mkdir -p "$GPUCKPT_LAB/work/bin"
asker=$GPUCKPT_LAB/work/bin/asker
mpicc -O2 -g -I"$prefix/include" -o "$asker" "$top/test/programs/asker.c" -L"$prefix/lib" \
	-Wl,-rpath,"$prefix/lib" -lgpuckpt -pthread ||
	{ echo "Bail out! asker cannot be built"; exit 1; }

# start OPTIONS: start a job of four ranks; if its step fails, it is requeued
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

# say WORDS...: the next line that the ranks obey
say()
{
	line=$((line + 1))
	echo "$*" >"$dir/new"
	mv "$dir/new" "$dir/go.$line"
}

results() { sed -n "s/^$line //p" "$dir/log.$1" 2>/dev/null; }
# calls RANK: it is about to make the call of this line, or has made it
calls() { [[ -e $dir/calls.$1.$line ]]; }
has() { [[ $(results "$1" | wc -l) -ge $2 ]]; }
all_have() { has 0 "$1" && has 1 "$1" && has 2 "$1" && has 3 "$1"; }
newest_results() { for r in 0 1 2 3; do results $r | tail -n 1; done | sort -u; }
all_returned_1() { all_have 1 && [[ $(newest_results) = "1 " ]]; }
ncommits() { commits "$job" | wc -l; }
has_commits() { [[ $(ncommits) -eq $1 ]]; }
# late: the last rank calls, if it waits for that
late() { touch "$dir/late"; }
in_init() { [[ $(alice gpuckpt able "$job" 2>&1) = *"it is in MPI_Init"* ]]; }
reasons() { alice gpuckpt list "$job" --json | jq -r '.steps[].commits[].reason' | sort -u; }

# returns RANK REGEX NAME: the rank's call returns, and its result matches
returns()
{
	wait_for 40 has "$1" 1
	like "$(results "$1")" "$2" "$3" || diag "$(alice gpuckpt status "$job" --json 2>&1)"
}

# all_return RESULT NAME: the calls of this line return that in every rank
all_return()
{
	wait_for 60 all_have 1
	is "$(for r in 0 1 2 3; do results $r; done | sort -u)" "$1 " "$2"
}

# ---- one rank, and all; before MPI_Init, in MPI, after MPI_Finalize

start ""
report $? "a step of ranks that ask runs under gpuckpt"
say one 2
returns 2 "^0 $" "one rank asks before MPI_Init"
is "$(ncommits)" 1 "there is one commit"
is "$(reasons)" "asked by rank 2" "its reason names the rank"
say init 1
check "able says that a rank is in MPI_Init" wait_for 20 in_init
like "$(alice gpuckpt create --no-wait "$job" 2>&1) $?" "0$" "a checkpoint waits for its end"
late
check "which comes: it is committed" wait_for 40 has_commits 2
rm "$dir/late"
say one 0
returns 0 "^0 $" "one rank asks while all are in MPI"
is "$(ncommits)" 3 "there is another commit"
say all 0
all_return 0 "all ranks ask at once"
is "$(ncommits)" 4 "they share one commit"
say all 1
check "all ranks but the last ask: the checkpoint is committed" wait_for 40 has_commits 5
late
all_return 0 "a rank that calls long after the others' commit returns"
is "$(ncommits)" 5 "they share one commit"
say threads 1 4
wait_for 40 has 1 4
is "$(results 1 | sort -u)" "0 " "four threads of a rank ask at once"
n=$(ncommits)
like "$n" '^[67]$' "they share one commit, or the late ones share a second"

# ---- restarts from within the call

rm "$dir/late"
say die
check "rank 0 is killed after its call: the job is started again" wait_for 60 job_restarted "$job" 1
late
wait_for 60 all_returned_1
is "$(results 0)" "0 "$'\n'"1 " "rank 0's call returned 0, and returns 1 in the restored process"
is "$(results 3)" "1 " "the call of a rank that had not called yet returns 1"
is "$(newest_results)" "1 " "the calls of all others return 1"
is "$(ncommits)" $((n + 1)) "there is no other commit"
for r in 0 1 2 3; do rm "$dir/log.$r"; done
rm "$dir/late"
check "the job is requeued: a second restart from the same commit" root scontrol requeue "$job"
check "the job is started again" wait_for 60 job_restarted "$job" 2
late
wait_for 60 all_have 1
is "$(for r in 0 1 2 3; do results $r; done | sort -u)" "1 " "the call returns 1 again in each rank"
check "the ranks run again" wait_ready "$job" 40
say one 3
returns 3 "^0 $" "a call after the restart is a new one"
is "$(ncommits)" $((n + 2)) "it has a commit of its own"
say finalize
say one 1
returns 1 "^0 $" "one rank asks after MPI_Finalize"

# ---- calls that fail, or wait for the coordinator

alice gpuckpt disable "$job" >/dev/null
say one 1
returns 1 "^-1 .*gpuckpt enable" "checkpoints are disabled: the call fails with the reason"
alice gpuckpt enable "$job" >/dev/null
"$cluster" kill gpuckptd
say one 1
returns 1 "^-107 .*gpuckptd. cannot be reached" "without a coordinator the call fails after a while"
say one 0
check "rank 0 is about to call" wait_for 20 calls 0
"$cluster" start gpuckptd
returns 0 "^0 $" "a call whose coordinator comes back succeeds"
# Without a coordinator no checkpoint is under way that the death of the agent could abort.
"$cluster" kill gpuckptd
say one 2
check "rank 2 is about to call" wait_for 20 calls 2
for node in $(job_nodes "$job"); do
	root -n "${node#n}" pkill -KILL --newest -x gpuckpt-agent
done
"$cluster" start gpuckptd
returns 2 "^0 $" "a call whose agent is killed is answered by the next agent"
say end
check "the job ends well" wait_job "$job" COMPLETED 40

# ---- beside interval=

start ",interval=2s"
report $? "a step with interval= runs under gpuckpt"
for i in 1 2 3; do
	say all 0
	all_return 0 "all ranks ask beside interval=, $i"
done
say end
check "the job ends well" wait_job "$job" COMPLETED 40

# ---- in other languages, and with device memory

# asks NAME OPTIONS COMMAND...: a job of one rank, which asks once and is restarted
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
	is "$(reasons)" "asked by rank 0" "$name: the commit's reason names the rank"
	root scontrol requeue "$job"
	check "$name: the job is started again" wait_for 60 job_restarted "$job" 1
	check "$name: the call returns 1 after the restart" \
		wait_for 60 grep -qx "1 *" "$dir/results" ||
		diag "$(cat "$dir/out" "$dir/results")"
	touch "$dir/end"
	check "$name: the job ends" wait_job "$job" COMPLETED 40
	is "$(wc -l <"$dir/results")" 2 "$name: the call has returned twice"
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
