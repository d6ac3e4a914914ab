#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAMMPS with MPI: four ranks on two nodes, launched by Slurm's PMIx. The program opens in.melt
# itself (-in): it continues there after a restart.
#SBATCH --job-name=lammps
#SBATCH --requeue --open-mode=append
#SBATCH --nodes=2 --ntasks=4 --time=24:00:00
srun --mpi=pmix --gpu-ckpt=interval=20m lmp -in in.melt
