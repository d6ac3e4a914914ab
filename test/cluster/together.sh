#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The steps of a job are checkpointed at one instant: three processes in two steps, one of them with
# --multi-prog, count in turns, so that at no instant two counts are more than one apart.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

lockstep=$(program lockstep)
dir=$(work_dir)
alice mkdir "$dir/faults"
for rank in 0 1; do
	echo "$rank bash -c 'exec $lockstep $((rank + 1)) 3 again >count$((rank + 1))'"
done >"$dir/programs"
job=$(submit "$dir" -N2 -n2 <<-END
	#!/bin/bash
	[[ \${SLURM_RESTART_COUNT-0} = 0 ]] || touch again
	srun --overlap -N1 -n1 --gpu-ckpt bash -c 'exec $lockstep 0 3 again >count0' &
	# gpuckpt knows a step by its number: the steps must start in the same order both times.
	until squeue -hs -j \$SLURM_JOB_ID -o %i | grep -q '\.0$' || ! kill -0 \$!; do
		sleep 0.2
	done
	GPUCKPT_FAULT=$dir/faults srun --overlap -n2 --gpu-ckpt --multi-prog programs &
	wait
END
)
both() { ready "$job" 0 && ready "$job" 1; }
# turn ME: the count that ME shows
turn() { readlink "$dir/turn$1"; }
counts_to() { [[ $(turn 0) -gt $1 && $(turn 1) -gt $1 && $(turn 2) -gt $1 ]]; }
check "two steps run at once, one with --multi-prog" wait_for 40 both
check "they count in turns" wait_for 40 counts_to 1000

# Where faults can be made, the second step is slow: the first waits for it, and counts on with it.
phase_0() { query "$job" 'select(.step == 0).checkpoint.phase'; }
is_prepared() { [[ $(phase_0) = prepared ]]; }
if grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/libexec/gpuckpt-agent"; then
	alice touch "$dir/faults/hold.AGENT_PREPARE"
	alice gpuckpt create "$job" >/dev/null &
	check "a step is slow to prepare: the other waits" wait_for 40 is_prepared
	check "their ranks count on" wait_for 40 counts_to $(($(turn 0) + 300))
	is "$(phase_0)" prepared "it still waits"
	rm "$dir/faults/held.AGENT_PREPARE"
	wait $!
	is $? 0 "create of the job"
else
	check "create of the job" alice gpuckpt create "$job"
fi
is "$(newest_commit "$job" 0)" "$(newest_commit "$job" 1)" "each has a checkpoint"
check "they count on" wait_for 40 counts_to $(($(turn 0) + 1000))
root scontrol requeue "$job"
check "the job is started again" wait_for 40 job_restarted "$job" 1
check "the job ends" wait_job "$job" COMPLETED 90
counts=$(cat "$dir"/count[012] | sort -n | xargs)
like "$counts" '^[0-9]+ [0-9]+ [0-9]+$' "each says from which count it went on"
check "they went on from the checkpoint ($counts)" test "${counts%% *}" -gt 900
check "their counts are of one instant ($counts)" test "${counts##* }" -le $((${counts%% *} + 1))
finish
