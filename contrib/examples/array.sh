#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An array: each task is a job of its own, with checkpoints of its own. Slurm requeues a task alone.
#SBATCH --job-name=sweep --array=1-100
#SBATCH --requeue --open-mode=append --output=sweep-%a.out
#SBATCH --ntasks=1 --time=12:00:00
srun --gpu-ckpt=interval=20m ./simulation --seed="$SLURM_ARRAY_TASK_ID"
