#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MPI ranks on two nodes: checkpoints while they talk, a node killed, a restart on other nodes with
# the ranks spread differently; the answers are those of an uninterrupted run. So are those of ranks
# that share windows, which must stay together. And checkpoints that fail.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=mpi_lib.sh
. "$test_dir/mpi_lib.sh"

ring=$(CC=mpicc program ring)
window=$(CC=mpicc program window)

# ways JOB: by which ways its ranks exchanged their words when MPI was quiesced
ways() { alice gpuckpt list "$1" --json | jq -r '[.steps[].commits[].quiesce_via] | unique | .[]'; }

# ---- a rank that computes while the others wait for it

dir=$(work_dir)
alice touch "$dir/computing"
job=$(mpi_job "$dir" 4 hold=8s --mpi=pmix "$ring" 400 2000 200 "$dir/computing")
check "a step with a rank that computes runs under gpuckpt" wait_ready "$job"
check "the others wait for it" wait_for 20 computes "$dir"
# If the machine stands still for a second or more, create names that: try again.
for _ in 1 2 3; do
	alice gpuckpt create "$job" >"$dir/create" 2>&1 && break
	! grep -Eq "rank 0 computes|rank [123] is inside MPI_" "$dir/create" || break
done
is "$(commits "$job")" "" "the checkpoint is aborted"
like "$(cat "$dir/create")" "rank 0 computes|rank [123] is inside MPI_" \
	"create names the rank, or the function in which another waits"
rm "$dir/computing"
check "the job goes on to its end" wait_job "$job" COMPLETED 60

# ---- before MPI_Init, and after MPI_Finalize, where the library is left out of the image too

dir=$(work_dir)
alice touch "$dir"/{before,after}
job=$(mpi_job "$dir" 2 "" --mpi=pmix "$ring" 300 100 around "$dir"/{before,after})
check "before MPI_Init: the step runs under gpuckpt" wait_ready "$job"
check "before MPI_Init: they compute" wait_for 20 computes "$dir"
check "before MPI_Init: create" alice gpuckpt create "$job"
check "before MPI_Init: requeue" alice gpuckpt requeue "$job"
check "before MPI_Init: Slurm starts the job again" wait_for 60 job_restarted "$job" 1
rm "$dir/before"
both() { [[ $(answers "$dir" | wc -l) -eq 2 ]]; }
check "they go through MPI" wait_for 40 both
want=$(OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe \
	-np 2 "$ring" 300 2>/dev/null | sort)
is "$(answers "$dir")" "$want" "the answers are those of an uninterrupted run"
through() { [[ $(grep -c '^finalized$' "$dir/out") -eq 2 ]]; }
check "they have called MPI_Finalize" wait_for 20 through
check "after MPI_Finalize: create" alice gpuckpt create "$job"
check "after MPI_Finalize: create again" alice gpuckpt create "$job"
check "after MPI_Finalize: requeue" alice gpuckpt requeue "$job"
rm "$dir/after"
check "the job ends" wait_job "$job" COMPLETED 90
is "$(job_restarts "$job")" 2 "after two restarts, each in one attempt"

# ---- without PMIx, for ranks that have cleared their environment; without the stand-in

dir=$(work_dir)
job=$(mpi_job "$dir" 4 "" --mpi=pmix \
	--export=ALL,RING_FORGETS=1,GPUCKPT_MPI_EXCHANGE=coordinator "$ring" 1000000 2000)
check "words through the coordinator: the step runs under gpuckpt" wait_ready "$job"
check "the ranks talk" wait_for 20 reached "$dir" 100
check "create" alice gpuckpt create "$job"
is "$(ways "$job")" coordinator "the words went through the coordinator"
check "requeue" alice gpuckpt requeue "$job"
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
is "$(answers "$dir" | wc -l)" 4 "there are four answers"

dir=$(work_dir)
job=$(mpi_job "$dir" 4 mpi=none --mpi=pmix "$ring" 1000000 2000)
check "mpi=none: the ranks talk" wait_for 30 reached "$dir" 100
check_not "mpi=none: create is refused" alice gpuckpt create "$job"
alice touch "$dir/enough"
check "mpi=none: the job ends" wait_job "$job" COMPLETED 60

# ---- checkpoint, death of a node, restart (last: the node can be reached again only after a while)

# Beside it, pairs of ranks that share windows, a pair on each node.
dir=$(work_dir) pairs=$(work_dir)
job=$(mpi_job "$dir" 4 "" --mpi=pmix "$ring" 1000000 2000)
pairs_job=$(submit "$pairs" -N2 --ntasks-per-node=2 <<-END
	#!/bin/bash
	export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=pt2pt
	spread=block
	[[ ! -e apart ]] || spread=cyclic
	srun --mpi=pmix --distribution=\$spread --gpu-ckpt $window 10000 30000 enough >>answers
END
)
check "the step runs under gpuckpt" wait_ready "$job"
check "ranks that share windows run under gpuckpt" wait_ready "$pairs_job"
check "it talks" wait_for 20 reached "$dir" 100
check "the others write to their windows" wait_for 20 reached "$pairs" 50
check "able: windows are shared, and not refused" alice gpuckpt able "$pairs_job"
check "create, while windows are written" alice gpuckpt create "$pairs_job"
check "create, again" alice gpuckpt create "$pairs_job"
check "able: the step can be checkpointed" wait_for 20 alice gpuckpt able "$job"
for i in 1 2 3; do
	check "create $i, while messages are under way" alice gpuckpt create "$job"
done
check "the ranks went on" wait_for 20 reached "$dir" 300
check "create 4" alice gpuckpt create "$job"
check "create, at some moment" alice gpuckpt create "$pairs_job"
tried=$(alice gpuckpt verify --restore --json "$job.0" 4)
is "$(jq -c '[.steps[].commits[].ranks[] | [.builds, .skipped]] | unique' <<<"$tried")" \
	'[[true,"MPI"]]' "verify --restore: each rank builds, without MPI"
node=$(comm -12 <(job_nodes "$job") <(job_nodes "$pairs_job") | tail -n 1) # both have it
alice touch "$pairs/apart"
node_dies "${node#n}"
check "a node dies: the job starts again" wait_for 90 job_restarted "$job" 1
check "its ranks come back" wait_ready "$job" 90
unlike "$(job_nodes "$job" | xargs)" "$node" "on another node"
check "create 5, after the restart" alice gpuckpt create "$job"
is "$(ways "$job")" pmix "the words went through PMIx, before and after"
check "requeue" alice gpuckpt requeue "$job"
check "requeue: Slurm starts the job again" wait_for 60 job_restarted "$job" 2
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 120
is "$(answers "$dir")" "$(wanted "$dir" 4)" "the answers are those of an uninterrupted run"
apart() { grep -q "ranks 0-1 share memory .* but rank [01] is not on this one" "$pairs/out"; }
check "the other job starts again, too" wait_for 90 job_restarted "$pairs_job" 1
check "ranks that share windows are not restarted apart" wait_for 60 apart
rm "$pairs/apart"
check "together again, those with windows go on" wait_ready "$pairs_job" 90
check "and can be checkpointed" alice gpuckpt create "$pairs_job"
alice touch "$pairs/enough"
check "that job ends, too" wait_job "$pairs_job" COMPLETED 120
want=$(OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe -np 4 \
	"$window" 10000 0 / 2>/dev/null | sort)
is "$(answers "$pairs")" "$want" "with the answers of an uninterrupted run"
nodes_back
finish
