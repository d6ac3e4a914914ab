#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training with PyTorch on one GPU. Data loaders must not be processes of their own: num_workers=0.
#SBATCH --job-name=train
#SBATCH --requeue --open-mode=append
#SBATCH --ntasks=1 --gpus=1 --time=24:00:00
srun --gpu-ckpt=interval=20m python3 -u train.py
