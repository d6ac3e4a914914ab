#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Restarts that cannot be: GPUs of another type, too few of them, another driver, GPUs whose memory somebody else
# has. The job says which rank lacks what and what helps, keeps no process (whose GPU memory goes with it), and waits held, or
# tries again; it goes on where it was when it has what it needs. On the fake driver (GPUCKPT_CUDA_PROGRAMS has it
# and cuda_bulk).
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
built=${GPUCKPT_CUDA_PROGRAMS-}
[[ -x $built/cuda_bulk ]] || { echo "1..0 # SKIP no cuda_bulk in GPUCKPT_CUDA_PROGRAMS"; exit 0; }
bin=$GPUCKPT_LAB/work/cuda_restart
mkdir -p "$bin"
cp "$built/cuda_bulk" "$bin"
install -D "$built/libcuda-fake.so" "$bin/fake/libcuda.so.1"
mib=64
dir=$(work_dir)

# The GPUs of all nodes, and the driver's version.
node_has() { printf '%s\n' "$@" >"$dir/node"; }
driver_is() { echo "$1" >"$dir/version"; }
others_have() { echo "$1" >"$dir/taken"; } # MiB of each GPU
mend() { node_has "a gpuckpt's device" "b gpuckpt's device"; driver_is 13000; others_have 0; }
mend
environment="LD_LIBRARY_PATH=$bin/fake FAKE_CUDA_MEMORY=512 FAKE_CUDA_NODE=$dir/node FAKE_CUDA_TAKEN=$dir/taken"

is_held() { [[ $(root squeue -h -j "$job" -o '%T %r') =~ (held|Held|HOLD) ]]; }
printed() { grep -qF -- "$1" "$dir/out"; }
in_comment() { root scontrol show job "$job" | grep -F Comment= | grep -qF -- "$1"; }
gone() { ! pgrep -f "^$bin/cuda_bulk $mib 400 $dir\$"; }

# fails TEXT REMEDY: the restart that is under way does, and says this
fails()
{
	check "$name: the job's output says so" wait_for 60 printed "$1"
	printed "$1" || diag "$(tail -n 30 "$dir/out")"$'\n'"$(job_story "$job")"
	like "$(grep -F -- "$1" "$dir/out" | tail -n 1)" "rank 0 on n[123].*$2" "$name: of which rank, where, and what helps"
}

# refused NAME TEXT REMEDY: the job is requeued
refused()
{
	name=$1
	: >"$dir/out"
	root scontrol requeue "$job"
	fails "$2" "$3"
	check "$name: the job waits, held" wait_for 60 is_held
	check "$name: Slurm's comment says why" in_comment "$2"
	check "$name: no process is left" wait_for 20 gone
	mend
	root scontrol release "$job"
	check "$name: released, where it has what it needs, it comes back" wait_ready "$job" 90
	is "$(query "$job" .restored)" 2 "$name: from its last commit"
}

alice touch "$dir/hold"
job=$(submit "$dir" -N1 -n1 --open-mode=append <<-END
	#!/bin/bash
	export $environment FAKE_CUDA_VERSION=\$(cat $dir/version)
	srun --gpu-ckpt=cuda=nvidia $bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "the step comes under gpuckpt's care" wait_ready "$job"
check "it has begun" wait_for 60 test -e "$dir/started"
check "create" alice gpuckpt create "$job"
check "create again" alice gpuckpt create "$job"

node_has "x another's device" "y another's device"
refused "another type of GPU" \
	"GPU 0 of the image is a gpuckpt's device, the one for it here a another's device" \
	"nodes with GPUs of that type"
node_has "a gpuckpt's device"
refused "too few GPUs" "the image has 2 GPUs (gpuckpt's device), the task here 1" "as many GPUs"
driver_is 13010
refused "another driver" "the image is of the NVIDIA driver of CUDA 13.0, the one here is of CUDA 13.1" "nodes with that driver"

check "create" alice gpuckpt create "$job"
name="memory that somebody else has"
: >"$dir/out"
others_have 500
root scontrol requeue "$job"
fails "its GPU was not brought back: device memory for what is in the image: too little memory is free on GPU-61616161-6161-6161-6161-616161616161" \
	"where GPUs are free"
restarts=$(job_restarts "$job")
check "$name: the job is started again" wait_for 60 job_restarted "$job" $((restarts + 1))
others_have 0
check "the job comes back" wait_ready "$job" 90
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
# shellcheck disable=SC2086 # words
alice env $environment "$bin/cuda_bulk" $mib 400 "$dir" >"$dir/want"
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "with the answer that the program gives alone"
finish
