#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Standard input that srun forwards: a restarted rank continues with the byte after those that it
# has consumed. Five jobs get it in the five ways that srun has, and are restarted twice. One prints
# it into a file of its own (srun -o with %t), which is cut back like a file that it appends to.
# With GPUCKPT_LONG=1 also with an input that is shorter the second time.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

lines=$(program lines)
dir=$(work_dir)
# More than the pipes of slurmstepd, the relay and srun's messages hold.
seq -f 'line %06g of an input that is longer than all pipes on its way' 1 12000 >"$dir/input"

# start NAME TASKS COMMAND: a job of TASKS ranks that copy their input to NAME.RANK
start()
{
	submit "$dir" -J "$1" -N1 -n"$2" --export="ALL,LINES_UNTIL=$dir/$1.until" <<-END
		#!/bin/bash
		$3
	END
}
names=(file option pipe all first)
ranks=(file.0 option.0 pipe.0 all.0 all.1 first.0)
jobs=(
	"$(start file 1 "unset SLURM_OPEN_MODE
		srun --gpu-ckpt=quiet=yes -o file.%t $lines <input")"
	"$(start option 1 "srun --gpu-ckpt --input=input $lines option")"
	"$(start pipe 1 "cat input | srun --gpu-ckpt $lines pipe")"
	"$(start all 2 "srun --gpu-ckpt -n2 $lines all <input")"
	"$(start first 2 "srun --gpu-ckpt -n2 --input=0 $lines first <input")"
)

# copied LINES: each rank has copied so many
copied()
{
	local r
	for r in "${ranks[@]}"; do
		[[ $(wc -l <"$dir/$r") -ge $1 ]] || return
	done
}
most() { for r in "${ranks[@]}"; do wc -l <"$dir/$r"; done | sort -n | tail -n 1; }
each() { local j; for j in "${jobs[@]}"; do "$@" "$j" || return; done; }
restarted() { job_restarted "$2" "$1"; }
# shellcheck disable=SC2317 # for each
not_noted() { ! alice gpuckpt able -v "$1" | grep 'from the beginning'; }

check "the jobs copy their input" wait_for 60 copied 100
check "all can be checkpointed" each wait_ready
check "able does not say that input is fed again" each not_noted
check "create of each" each alice gpuckpt create
check "they go on" wait_for 60 copied "$(($(most) + 20))"
each root scontrol requeue
check "requeued, they are started again" wait_for 60 each restarted 1
check "and can be checkpointed again" each wait_ready
check "they copy more" wait_for 60 copied "$(($(most) + 20))"
check "gpuckpt requeue of each" each alice gpuckpt requeue
check "they are started again" wait_for 60 each restarted 2
check "and go on a second time" wait_for 60 copied "$(($(most) + 20))"
for name in "${names[@]}"; do
	alice touch "$dir/$name.until"
done
i=0
for name in "${names[@]}"; do
	check "$name: the job ends" wait_job "${jobs[i++]}" COMPLETED 90
done
for r in "${ranks[@]}"; do
	check "$r has each line once" cmp "$dir/input" "$dir/$r"
done
is "$(wc -c <"$dir/first.1")" 0 "--input=0: the other rank has none"

[[ ${GPUCKPT_LONG-} ]] || finish

# What comes again is shorter than what had been read.
rm "$dir"/*.until "$dir/file.0"
job=$(start file 1 "srun --gpu-ckpt $lines file <input")
short() { [[ $(wc -l <"$dir/file.0") -ge 100 ]]; }
check "a job reads its input" wait_for 60 short
check "it can be checkpointed" wait_ready "$job"
check "create" alice gpuckpt create "$job"
echo "another input" >"$dir/input"
root scontrol requeue "$job"
told() { grep -q 'standard input.*start the step with the same input' "$dir/out"; }
check "with a shorter input it is not restarted" wait_for 60 told
end_job "$job"
finish
