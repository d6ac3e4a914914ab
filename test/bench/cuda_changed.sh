#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/cuda_changed.sh [MIB]: a first and a second checkpoint, into a store in memory, of a
# program with MIB (CHANGED_MIB, 256) of noise on its devices, of which 5 percent change between
# them: the bytes stored, which were read from the devices, and the time. Prints `name value unit`;
# stderr has the goals. On a GPU by test/gpu/slurm; without one on the fake driver. Needs
# GPUCKPT_CUDA_PROGRAMS, and GPUCKPT_PREFIX or a lab in GPUCKPT_LAB.
: "${GPUCKPT_CUDA_PROGRAMS:?is where cuda_bulk and libcuda-fake.so were built}"
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
mib=${1-${CHANGED_MIB-256}}
dir=$(work_dir)
bin=$GPUCKPT_LAB/work/cuda_changed
mkdir -p "$bin"
cp "$GPUCKPT_CUDA_PROGRAMS/cuda_bulk" "$bin"
cuda='' libraries=${LD_LIBRARY_PATH-}
if [[ ! -e /dev/nvidiactl ]]; then
	cuda=cuda=nvidia, libraries=$bin/fake
	install -D "$GPUCKPT_CUDA_PROGRAMS/libcuda-fake.so" "$libraries/libcuda.so.1"
fi

# one NAME: take a checkpoint and print its figures
one()
{
	alice gpuckpt create "$job" --json >"$dir/$1" ||
		give_up "no checkpoint: $(tail -n 3 "$dir/out")"
	figure "cuda_changed_$1" "$(calc "$(jq '.steps[0].stored' "$dir/$1") / 1048576")" MiB
	figure "cuda_changed_$1_stall" "$(jq '.steps[0].stall_ms' "$dir/$1")" ms
	figure "cuda_changed_$1_write" "$(jq '.steps[0].write_s' "$dir/$1")" s
}

alice touch "$dir/hold"
job=$(submit "$dir" -n1 <<-END
	#!/bin/bash
	export LD_LIBRARY_PATH=$libraries FAKE_CUDA_MEMORY=$((4 * mib))
	srun --gpu-ckpt=${cuda}store=file:$GPUCKPT_LAB/memory,compress=none \\
		$bin/cuda_bulk $mib 400 $dir
END
)
bench_ready "$job"
wait_for 60 test -e "$dir/started" || give_up "the program does not start: $(tail -n 3 "$dir/out")"
one first
alice touch "$dir/some"
wait_for 60 test -s "$dir/dirtied" || give_up "nothing changes"
one second
end_job "$job"
share=$(calc "100 * $(jq '.steps[0].stored' "$dir/second") / $(jq '.steps[0].stored' "$dir/first")")
figure cuda_changed_stored "$share" percent
at_most "bytes of the second, in percent" "$share" 8
[[ $failures -eq 0 ]]
