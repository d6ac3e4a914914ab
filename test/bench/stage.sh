#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/stage.sh [MIB [KIB]]: how long copies of a rank's memory exist during a first
# checkpoint of MIB (128) of noise into an object store that accepts KIB (1024) kilobytes a second
# of each object, with stage= on the node's disk and without; in turns, medians of three. Prints
# `name value unit`; stderr has the goals. Needs GPUCKPT_PREFIX, or a lab with --s3 in GPUCKPT_LAB.
export GPUCKPT_LAB_OPTIONS=--s3
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
mib=${1-128} kib=${2-1024}
dir=$(work_dir)
burn=$(program burn)
install -d -m 1777 "$GPUCKPT_LAB/work/disk"
echo "1- put /[0-9]+-[0-9a-f]+/ drip $((kib * 1024))" >"$GPUCKPT_LAB/s3/faults"

# one NAME STAGE: appends how long the copy existed and how long the whole checkpoint took
one()
{
	local info
	job=$(submit "$dir" -n1 <<<"#!/bin/bash
		srun --gpu-ckpt=stage=$2 $burn $mib 100000 1000 0")
	bench_ready "$job"
	sleep $((mib / 400 + 1))
	alice gpuckpt create "$job" >&2 || give_up "no checkpoint of job $job"
	info=$(query "$job" .last)
	jq -r .copy_s <<<"$info" >>"$dir/$1.copy"
	jq -r .seconds <<<"$info" >>"$dir/$1.whole"
	[[ $2 = off || $(jq -r '.unstaged // ""' <<<"$info") = '' ]] || give_up "not staged: $info"
	end_job "$job"
}

for _ in 1 2 3; do
	one direct off
	one staged "$GPUCKPT_LAB/work/disk"
done
for name in direct staged; do
	figure "stage_copy_$name" "$(median <"$dir/$name.copy")" s
	figure "stage_whole_$name" "$(median <"$dir/$name.whole")" s
done
ratio=$(calc "$(median <"$dir/staged.copy") / $(median <"$dir/direct.copy")")
figure stage_copy_over_direct "$ratio" ratio
at_most "a copy with a stage over without" "$ratio" 0.5
[[ $failures -eq 0 ]]
