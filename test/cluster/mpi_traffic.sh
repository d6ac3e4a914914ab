#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random MPI programs (test/mpi) of four ranks on two nodes are checkpointed again and again while
# they run. A rank or a node is killed, or the job requeued, and the digests at the end are those of
# an uninterrupted run. In C, every family of functions; in C with threads; in Fortran, in three
# ways.
#   mpi_traffic.sh [KIND...]
# With GPUCKPT_LONG=1 each is killed and restarted several times at random, from a random seed.
# GPUCKPT_SEED=N is the first seed, GPUCKPT_SEEDS=N the number of seeds.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need_mpi

kinds=("$@")
[[ $# -gt 0 ]] || kinds=(c threads mpif.h mpi mpi_f08)
if [[ -n ${GPUCKPT_LONG-} ]]; then
	RANDOM=$$
	seed=${GPUCKPT_SEED-$((RANDOM * 8 + 1))} seeds=${GPUCKPT_SEEDS-50}
else
	[[ $# -gt 0 ]] || kinds=(c threads mpi_f08)
	seed=${GPUCKPT_SEED-1} seeds=${GPUCKPT_SEEDS-8}
fi
steps=200
pause=5000 # microseconds after every step
dir=$(work_dir)
bin=$dir/bin
mkdir "$bin"
diag "seeds $seed to $((seed + seeds - 1)), four ranks"

# ---- the programs

fortran_way() { case $1 in mpif.h) echo MPIFH ;; mpi) echo USEMPI ;; *) echo USEMPIF08 ;; esac; }

# build KIND: into $bin
build()
{
	local sources=() s
	case $1 in
	c | threads)
		[[ -x $bin/traffic ]] || mpicc -O1 -g -std=gnu11 -D_GNU_SOURCE -o "$bin/traffic" \
			"$top"/test/mpi/*.c -pthread
		;;
	*)
		command -v mpifort >/dev/null || return
		for s in plan callbacks types messages collectives objects storage traffic; do
			sources+=("$top/test/mpi/fortran/$s.F90")
		done
		mkdir -p "$bin/$1" && cd "$bin/$1" && mpifort -O1 -g -cpp "-D$(fortran_way "$1")" \
			-fallow-argument-mismatch -w -o "../traffic.$1" "${sources[@]}"
		;;
	esac
}

# command_of KIND PAUSE FILES: its command line
command_of()
{
	local c="$bin/traffic --seed=$seed --seeds=$seeds --steps=$steps --pause=$2"
	case $1 in
	c) echo "$c --scratch=$3 --restarts" ;;
	threads) echo "$c --threads=3" ;;
	*) echo "$bin/traffic.$1 $seed $seeds $steps $2 $3" ;;
	esac
}

# With osc=pt2pt alone the windows of Debian's Open MPI work both within a node and between two.
environment="OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=pt2pt"

# reference KIND: an uninterrupted run with Debian's mpirun and libraries, not under Slurm
reference()
{
	local files
	files=$(mktemp -d -p /dev/shm)
	# shellcheck disable=SC2046,SC2086 # lists of words
	env $environment timeout 600 mpirun --allow-run-as-root --oversubscribe -np 4 \
		$(command_of "$1" 0 "$files") 2>&1
	rm -rf "$files"
}

start()
{
	mkdir "$dir/files.$1"
	chown --reference="$dir" "$dir/files.$1"
	submit "$dir" -N2 -n4 <<-END
		#!/bin/bash
		export $environment
		srun --mpi=pmix --gpu-ckpt $(command_of "$1" $pause "$dir/files.$1") >>out.$1
	END
}

# ---- checkpoints and deaths

ended() { [[ ! $(job_state "$job") =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING)$ ]]; }

# create: another checkpoint; one that fails because the job has ended does not count
create()
{
	local text
	if text=$(alice gpuckpt create "$job" 2>&1); then
		created=$((created + 1))
	elif ! wait_for 30 ended; then
		report 1 "$kind: checkpoint $((created + 1))"
		diag "$text"
		return 1
	fi
}

# A rank on one of the nodes dies, and the others cannot go on.
kill_rank()
{
	local node
	node=$(job_nodes "$job" | sed -n "$((RANDOM % 2 + 1))p")
	root -n "${node#n}" pkill -KILL --newest -f "^$bin/traffic"
	root scontrol requeue "$job"
}

kill_node()
{
	local node
	node=$(root squeue -h -j "$job" -o %B)
	node_dies "${node#n}"
	wait_for 90 job_restarted "$job" $((restarts + 1))
	"$cluster" node-start "${node#n}"
}

requeue() { alice gpuckpt requeue "$job"; }
requeue_at_once() { root scontrol requeue "$job"; }

# disaster FUNCTION: the job is started again, and repeats its work since the last checkpoint
disaster()
{
	local out
	ended && return
	if ! out=$("$1" 2>&1); then
		ended && return
		diag "$1: $out"
	fi
	check "$kind: $1: the job is started again" \
		wait_for 90 restarted_or_over $((restarts + 1)) || return
	restarts=$((restarts + 1))
	check "$kind: $1: the ranks run again" wait_for 90 ready_or_over || diag "$(query "$job" .)"
}

# A step that had finished is not run again, and its job ends at once.
restarted_or_over()
{
	job_restarted "$job" "$1" || { [[ $(job_restarts "$job") -ge $1 ]] && ended; }
}
ready_or_over() { ready "$job" || ended; }

# some N: checkpoints with random pauses, until the job ends
some()
{
	local i
	for ((i = 0; i < $1; i++)); do
		ended && return
		create || return
		sleep "0.0$((RANDOM % 10))"
	done
}

# disturb: one death for each KIND; in the long form random deaths until the job has ended
disturb()
{
	local ways=(kill_rank kill_node requeue requeue_at_once)
	if [[ -n ${GPUCKPT_LONG-} ]]; then
		until ended; do
			some $((RANDOM % 20 + 1)) || return
			disaster "${ways[RANDOM % 4]}" || return
		done
		return
	fi
	some 5 || return
	case $kind in
	c) disaster kill_node ;;
	threads) disaster kill_rank ;;
	*) disaster requeue ;;
	esac
	some 3
}

for kind in "${kinds[@]}"; do
	build "$kind" || { report 1 "$kind: the program is built"; continue; }
	[[ $kind = c || $kind = threads || -x $bin/traffic.$kind ]] || continue # no Fortran here
	reference "$kind" >"$dir/want.$kind"
	created=0 restarts=0
	job=$(start "$kind")
	check "$kind: the step runs under gpuckpt" wait_ready "$job"
	disturb
	check "$kind: the job ends" wait_job "$job" COMPLETED 300
	# Lines between the last checkpoint and a death are printed twice.
	is "$(sort -u "$dir/out.$kind")" "$(sort "$dir/want.$kind")" \
		"$kind: the digests are the uninterrupted run's" || diag "$(tail -n 5 "$dir/out")"
	diag "$kind: $created checkpoints, $restarts restarts"
	end_job "$job"
done
nodes_back
finish
