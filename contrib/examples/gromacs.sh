#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Molecular dynamics with GROMACS: md.tpr in this directory is what "gmx grompp" made.
#SBATCH --job-name=gromacs
#SBATCH --requeue --open-mode=append
#SBATCH --ntasks=1 --cpus-per-task=8 --time=24:00:00
# On a GPU: #SBATCH --gpus=1
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --gpu-ckpt=interval=20m \
	gmx mdrun -deffnm md -ntmpi 1 -ntomp "${SLURM_CPUS_PER_TASK:-1}"
