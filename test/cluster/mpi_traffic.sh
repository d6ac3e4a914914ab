#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random MPI programs (test/mpi) of four ranks on two nodes, checkpointed again and again, the node of
# the job's script killed and the job requeued: the digests are those of uninterrupted runs. With
# GPUCKPT_LONG=1 more seeds.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seeds=${GPUCKPT_LONG:+20}
seeds=${seeds:-2}
steps=2000
dir=$(work_dir)
bin=$GPUCKPT_LAB/work/bin/traffic
mkdir -p "$(dirname "$bin")"
[[ -x $bin ]] || mpicc -O1 -g -std=gnu11 -D_GNU_SOURCE -o "$bin" "$top"/test/mpi/*.c -pthread ||
	{ echo "Bail out! traffic cannot be built"; exit 1; }

# reference SEED: with Debian's mpirun, not under Slurm
reference()
{
	OMPI_MCA_mpi_yield_when_idle=1 mpirun --allow-run-as-root --oversubscribe -np 4 "$bin" \
		--seed="$1" --steps=$steps --families="$families" --scratch=/dev/shm 2>&1
}

# One-sided communication and files come with tests of their own: a node's death takes /dev/shm away.
families=p2p,storm,any,shift,persistent,coll,nbc,reduce,nbreduce,neighbour,comm,group,type,pack,attr,object

# Checkpoints every so often; the second time round, the node dies.
one_seed()
{
	local want job node i
	want=$(reference "$1")
	job=$(submit "$dir" -N2 -n4 <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1
		srun --mpi=pmix --gpu-ckpt $bin --seed=$1 --steps=$steps --families=$families \
			--pause=10000 >out.$1
	END
	)
	check "seed $1: the step comes under gpuckpt's care" wait_ready "$job"
	for i in 1 2 3 4 5; do
		check "seed $1: checkpoint $i" alice gpuckpt create "$job"
		sleep 0.3
	done
	node=$(root squeue -h -j "$job" -o %B)
	"$cluster" node-kill "${node#n}"
	check "seed $1: the job is started again" wait_for 90 job_restarted "$job" 1
	"$cluster" node-start "${node#n}"
	check "seed $1: the ranks run again" wait_ready "$job" 60
	for i in 6 7; do
		check "seed $1: checkpoint $i" alice gpuckpt create "$job"
		sleep 0.3
	done
	check "seed $1: the job ends" wait_job "$job" COMPLETED 200
	is "$(cat "$dir/out.$1")" "$want" "seed $1: the digest is the uninterrupted run's"
}

for ((s = 1; s <= seeds; s++)); do
	one_seed $s
done
nodes_back
finish
