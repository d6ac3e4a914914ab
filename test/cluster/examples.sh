#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of contrib/examples, as a user submits them: each job is requeued, comes back from its
# checkpoint and ends right, and its output is whole. Only sizes differ, by options of sbatch and by
# the files in the directory. With GPUCKPT_LONG=1 GROMACS, LAMMPS and PyTorch too, as far as they
# are installed; PyTorch on a CPU (test/gpu has it on a GPU).
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=gromacs.sh
. "$test_dir/gromacs.sh"
top_dir=$(work_dir)

# example NAME [SBATCH-OPTION...]: submits NAME.sh from its directory, $dir
example()
{
	name=$1
	dir=$top_dir/$1
	job=$(alice sbatch --parsable --chdir="$dir" "${@:2}" "$top/contrib/examples/$1.sh")
	echo "$job" >>"$jobs_made"
}

comes_back() { job_restarted "$1" 1 && ready "$1"; }

# ---- array.sh: a program that prints numbered lines

alice mkdir "$top_dir/array"
cat >"$top_dir/array/simulation" <<-'END'
	#!/usr/bin/python3 -u
	import os, sys, time
	line = 0
	while line < 20 or not os.path.exists("enough"):
	    line += 1
	    print(sys.argv[1], line)
	    time.sleep(0.02)
END
chmod 755 "$top_dir/array/simulation"
example array --array=1-2
running() { alice squeue -h -t R -j "$job" -o %A; }
both() { [[ $(running | wc -l) -eq 2 ]]; }
check "$name: both tasks run" wait_for 30 both
for task in 1 2; do
	check "$name: task $task runs under gpuckpt" wait_ready "${job}_$task" 60
done
check "$name: gpuckpt create takes the array's number" alice gpuckpt create "$job"
check "$name: gpuckpt list, too" alice gpuckpt list "$job"
root scontrol requeue "$job"
for task in 1 2; do
	check "$name: task $task comes back" wait_for 60 comes_back "${job}_$task"
done
alice touch "$dir/enough"
# What srun writes into the script's output after the checkpoint is there twice.
for task in 1 2; do
	check "$name: task $task ends" wait_job "${job}_$task" COMPLETED 60
	out=$dir/sweep-$task.out
	is "$(sed -n "s/^--seed=$task //p" "$out" | sort -nu | awk '$1 != NR' | head -n 3)" "" \
		"$name: no line of task $task is missing"
	like "$(cat "$out")" "is restored from checkpoint 1 " \
		"$name: and says where it was restored from"
done
[[ ${GPUCKPT_LONG-} ]] || finish

# restarts LOG LINE [FILE]: the job is checkpointed once LOG has LINE, requeued, and ends, once FILE
# is there
restarts()
{
	check "$name: it runs under gpuckpt" wait_ready "$job" 60
	check "$name: it computes" wait_for 60 grep -q "$2" "$dir/$1"
	check "$name: create" alice gpuckpt create "$job"
	root scontrol requeue "$job"
	check "$name: it comes back" wait_for 60 comes_back "$job"
	[[ ! ${3-} ]] || alice touch "$dir/$3"
	check "$name: it ends" wait_job "$job" COMPLETED 300
	like "$(cat "$dir/slurm-$job.out")" "is restored from checkpoint 1 " \
		"$name: its output says where it was restored from"
}

# ---- lammps.sh

if command -v lmp >/dev/null; then
	need_mpi
	alice mkdir "$top_dir/lammps"
	{
		printf 'variable edge index 12\nvariable steps index 600\n'
		cat "$top/contrib/demo.d/melt.in"
	} >"$top_dir/lammps/in.melt"
	example lammps --export=ALL,OMPI_MCA_mpi_yield_when_idle=1 # two cores for four ranks
	restarts log.lammps '^ *100 '
	is "$(grep -c '^Loop time' "$dir/log.lammps")" 1 "$name: the log ends once"
fi

# ---- gromacs.sh

if command -v gmx >/dev/null && gromacs_input "$top_dir/gromacs" 1; then
	# The box's own run has no end.
	gmx -quiet convert-tpr -s "$top_dir/gromacs/reference/rank0/topol.tpr" -nsteps 2000 \
		-o "$top_dir/gromacs/md.tpr" >/dev/null 2>&1
	chmod 644 "$top_dir/gromacs/md.tpr"
	example gromacs --cpus-per-task=2
	restarts md.log '^Started mdrun'
	check "$name: it is finished" grep -q '^Finished mdrun' "$dir/md.log"
fi

# ---- pytorch.sh

if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	alice mkdir "$top_dir/pytorch" "$top_dir/pytorch/reference"
	cat >"$top_dir/pytorch/train.py" <<-'END'
		import os, torch
		torch.manual_seed(0)
		layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)]
		model = torch.nn.Sequential(*layers)
		optimizer = torch.optim.Adam(model.parameters())
		steps, step = int(os.environ.get("TRAIN_STEPS", 0)), 0
		with open("losses", "w", buffering=1) as losses:
		    while step < steps or not (steps or os.path.exists("enough")):
		        step += 1
		        x = torch.randn(32, 64)
		        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
		        optimizer.zero_grad()
		        loss.backward()
		        optimizer.step()
		        print(step, loss.item().hex(), file=losses)
	END
	example pytorch --gpus=0
	restarts losses '^100 ' enough
	alice env -C "$dir/reference" TRAIN_STEPS="$(wc -l <"$dir/losses")" \
		/usr/bin/python3 "$dir/train.py"
	check "$name: its losses are those of an uninterrupted run, bit for bit" \
		cmp "$dir/losses" "$dir/reference/losses"
fi
finish
