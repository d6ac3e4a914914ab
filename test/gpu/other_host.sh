#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A commit is carried to another machine with a GPU, in a file, and the job continues there:
#	GPUCKPT_IMAGE=FILE test/gpu/slurm run PACK gpu/other_host
# makes FILE and FILE.of if they do not exist. With both of them, on the other machine, the same
# command restarts the job and compares its answer. The files that a rank has open and mapped must
# be at the same paths there.
# shellcheck source=../cluster/lib.sh
. "$(dirname "$(readlink -f "$0")")/../cluster/lib.sh"
work=${GPUCKPT_CUDA_PROGRAMS-}/work
[[ -x $work && ${GPUCKPT_IMAGE-} ]] || {
	echo "1..0 # SKIP no work in GPUCKPT_CUDA_PROGRAMS, or no GPUCKPT_IMAGE"
	exit 0
}
dir=/tmp/gpuckpt-other-host
mkdir "$dir" || { echo "Bail out! $dir exists"; exit 1; }
trap 'rm -rf "$dir"' EXIT
cp -p "$work" "$dir/work"
chown --reference="$home" "$dir"
program=("$dir/work" 2000 8)

# start KEYS
start()
{
	alice touch "$dir/hold"
	submit "$dir" <<-END
		#!/bin/bash
		GPUCKPT_SELF=$dir srun --gpu-ckpt=$1 ${program[*]} >>$dir/answers
	END
}

gpu() { nvidia-smi --query-gpu=uuid,pci.bus_id --format=csv,noheader | head -1; }

if [[ ! -e $GPUCKPT_IMAGE ]]; then
	want=$(alice "${program[@]}" | tail -n 1)
	job=$(start compress=zstd)
	check "the rank runs with gpuckpt" wait_for 60 ready "$job"
	check "its work has begun" wait_for 60 test -e "$dir/started"
	check "create" alice gpuckpt create "$job"
	check "export" alice gpuckpt export "$job:1" "$dir/image"
	cp "$dir/image" "$GPUCKPT_IMAGE"
	printf '%s\n%s\n%s\n' "$job" "$(gpu)" "$want" >"$GPUCKPT_IMAGE.of"
	diag "$(stat -c '%s bytes' "$dir/image"), of $(gpu)"
	end_job "$job"
	finish
fi

{ read -r job && read -r old && read -r want; } <"$GPUCKPT_IMAGE.of"
diag "of $old, here $(gpu)"
unlike "$(gpu)" "^${old%,*}" "another GPU"
alice mkdir "$dir/store"
cp "$GPUCKPT_IMAGE" "$dir/image"
chown --reference="$dir" "$dir/image"
check "import" alice gpuckpt import "$dir/image" --store="file:$dir/store"
next=$(start "store=file:$dir/store,restart=$job:1")
check "the job's successor comes back with its GPU" wait_for 60 ready "$next"
check "the coordinator reports it" grep -q "step $next.0 is restored from commit 1 of step $job.0" \
	"$GPUCKPT_LAB/log/gpuckptd.out"
check "create there" alice gpuckpt create "$next"
check "create again" alice gpuckpt create "$next"
diag "$(alice gpuckpt list "$next")"
rm "$dir/hold"
check "it ends" wait_job "$next" COMPLETED 60
is "$(tail -n 1 "$dir/answers")" "$want" "with the same answer as alone on the first machine"
((failures == 0)) || diag "$(tail -n 30 "$dir/out")"
finish
