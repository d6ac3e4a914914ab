#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Restarts that fail, of images that have the driver: GPUs of another type, too few GPUs, another
# driver, GPUs whose memory somebody else uses. The message names the rank, what it lacks and the
# remedy. No process is left (which would keep GPU memory). The job waits held, or is tried again;
# once it has what it needs it goes on from its commit. On the fake driver, which
# GPUCKPT_CUDA_PROGRAMS has beside cuda_bulk.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
built=${GPUCKPT_CUDA_PROGRAMS-}
[[ -x $built/cuda_bulk ]] || { echo "1..0 # SKIP no cuda_bulk in GPUCKPT_CUDA_PROGRAMS"; exit 0; }
bin=$GPUCKPT_LAB/work/cuda_restart
mkdir -p "$bin"
cp "$built/cuda_bulk" "$bin"
mib=64
dir=$(work_dir)

# The GPUs of all nodes, and the driver.
node_has() { printf '%s\n' "$@" >"$dir/node"; }
driver_is() { install -D "$built/$1" "$bin/fake/libcuda.so.1"; }
others_have() { echo "$1" >"$dir/taken"; } # MiB of each GPU
mend()
{
	node_has "a gpuckpt's device" "b gpuckpt's device"
	driver_is libcuda-fake.so
	others_have 0
}
mend
environment="LD_LIBRARY_PATH=$bin/fake FAKE_CUDA_MEMORY=512"
environment+=" FAKE_CUDA_NODE=$dir/node FAKE_CUDA_TAKEN=$dir/taken"

is_held() { [[ $(root squeue -h -j "$job" -o '%T %r') =~ (held|Held|HOLD) ]]; }
printed() { grep -qF -- "$1" "$dir/out"; }
in_comment() { root scontrol show job "$job" | grep -F Comment= | grep -qF -- "$1"; }
gone() { ! pgrep -f "^$bin/cuda_bulk $mib 400 $dir\$"; }

# fails TEXT REMEDY: the restart that is under way fails with this message
fails()
{
	check "$name: the job's output has the message" wait_for 60 printed "$1" ||
		diag "$(tail -n 30 "$dir/out")"$'\n'"$(job_story "$job")"
	like "$(grep -F -- "$1" "$dir/out" | tail -n 1)" "rank 0 on n[123].*$2" \
		"$name: it names rank, node and remedy"
}

# refused NAME TEXT REMEDY: the job is requeued, fails, and comes back once the nodes have what it
# needs
refused()
{
	name=$1
	: >"$dir/out"
	root scontrol requeue "$job"
	fails "$2" "$3"
	check "$name: the job waits, held" wait_for 60 is_held
	check "$name: the job's comment has the reason" in_comment "$2"
	check "$name: no process is left" wait_for 20 gone
	mend
	root scontrol release "$job"
	check "$name: released, with what it needs, it comes back" wait_ready "$job" 90
	is "$(query "$job" .restored)" 2 "$name: it is restored from its last commit"
}

alice touch "$dir/hold"
job=$(submit "$dir" -N1 -n1 --open-mode=append <<-END
	#!/bin/bash
	export $environment
	srun --gpu-ckpt=cuda=image $bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "the step runs under gpuckpt" wait_ready "$job"
check "it computes" wait_for 60 test -e "$dir/started"
check "create" alice gpuckpt create "$job"
check "create again" alice gpuckpt create "$job"

node_has "x another's device" "y another's device"
refused "another type of GPU" \
	"GPU 0 of the image is a gpuckpt's device, the one for it here a another's device" \
	"nodes with GPUs of that type"
node_has "a gpuckpt's device"
refused "too few GPUs" "the image has 2 GPUs (gpuckpt's device), the task here 1" "as many GPUs"
driver_is libcuda-fake-older.so
refused "another driver" \
	"the image is of the NVIDIA driver of CUDA 13.0, the one here is of CUDA 12.8" \
	"nodes with that driver"

check "create" alice gpuckpt create "$job"
name="memory that somebody else uses"
: >"$dir/out"
others_have 500
root scontrol requeue "$job"
gpu=GPU-61616161-6161-6161-6161-616161616161
why="its GPU was not brought back: device memory for what is in the image:"
fails "$why too little memory is free on $gpu" "where GPUs are free"
restarts=$(job_restarts "$job")
check "$name: the job is started again" wait_for 60 job_restarted "$job" $((restarts + 1))
others_have 0
check "the job comes back" wait_ready "$job" 90
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
# shellcheck disable=SC2086 # words
alice env $environment "$bin/cuda_bulk" $mib 400 "$dir" >"$dir/want"
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "its answer is that of the program alone"
finish
