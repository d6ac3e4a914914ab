#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3_faults.sh [swift|ceph]: faults between a job of two ranks and the object store
# (contrib/cluster.d/front). A checkpoint succeeds in spite of a fault that occurs once. A fault
# that stays makes it fail: there is no new commit, and the message names the object and the cause.
# The job computes on in both cases. Each class of fault occurs once; in the long form at each
# request of a checkpoint.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
dir=$(work_dir)
burn=$(program burn)
args=(8 20000 50)
burn_answers 8 20000 0 >"$dir/want"

silence_is 2

object='/[0-9]+-[0-9a-f]+/[^.]*$' # not a rank's manifest

job=$(submit "$dir" -N2 -n2 <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
END
)
check "the step runs under gpuckpt" wait_ready "$job"

# both_compute NAME: the ranks print more lines, and all lines are those of an uninterrupted run
both_compute()
{
	local r lines
	for r in 0 1; do
		lines=$(wc -l <"$dir/rank$r")
		check "$1: rank $r prints more" wait_for 30 more_lines "$r" "$lines"
		check "$1: rank $r prints what an uninterrupted run prints" \
			cmp <(head -n "$lines" "$dir/rank$r") <(head -n "$lines" "$dir/want")
	done
}
more_lines() { [[ $(wc -l <"$dir/rank$1") -gt $2 ]]; }

# create [RULE...]: a checkpoint (or another $verb) with these faults; $out is its output, $struck
# are the requests that a fault has struck
create()
{
	local status=0
	forget
	faults "$@"
	out=$(alice gpuckpt "${verb-create}" "$job" 2>&1) || status=$?
	struck=$(requests '^begin ' | grep -v ' none$')
	faults
	return $status
}

# overcome RULE...: create (or $verb) succeeds, though a fault struck it
overcome()
{
	local status=0
	create "$@" || status=$?
	[[ $status -ne 0 || -n $struck ]] || { status=1 out="no request was struck"; }
	report $status "${verb-create} overcomes $*" || diag "$out"$'\n'"$struck"
}

# given_up REGEX RULE...: create fails, there is no new commit, and the message matches
given_up()
{
	local newest
	newest=$(newest_commit "$job")
	if create "${@:2}"; then
		report 1 "always: ${*:2}"
		diag "$out"$'\n'"$struck"
	else
		like "$out" "$1" "always: ${*:2}"
		is "$(newest_commit "$job")" "$newest" "always: ${*:2}: there is no new commit"
	fi
}

check "create" create
for fault in "answer 500 InternalError" "answer 503 SlowDown" "answer 429 TooManyRequests" \
	"answer 400 RequestTimeout" "answer 403 AccessDenied" "after 500 InternalError" \
	"lost" "cut 100000" "junk" "html" "silence" "mute" "stall 100000" "flip 1000"; do
	overcome "1 put $object $fault"
done
check "after them: both commits are whole" alice gpuckpt verify "$job"
for fault in "after 500 InternalError" lost; do
	overcome "1 put /commit- $fault"
done
overcome "1 put rank-.*json lost" "2 put rank-.*json answer 503 SlowDown"
overcome "1 * . refuse" "2 * . answer 503 SlowDown" "4 * . lost" "5 * . junk"
overcome "1 put $object drip 3000000" "2 put $object error200 InternalError"
check "after them: both commits are whole" alice gpuckpt verify "$job"
given_up "put.*AccessDenied" "1- put $object answer 403 AccessDenied"
given_up "507" "1- put $object answer 507 InsufficientStorage"
given_up "clock .* behind" "1- put . skew 1000"
given_up "commit-.*AccessDenied" "1- put /commit- answer 403 AccessDenied"
check "create, without faults" create
both_compute "after writes with faults"

# ---- reading

verb=verify
for fault in "answer 503 SlowDown" "cut-answer 1000" silence "drip-answer 2000000" "short 1000" \
	"flip-answer 1000"; do
	overcome "1 get $object $fault"
done
create "1- get $object answer 404 NoSuchKey"
like "$? $out" "^1 .*/$job/0/.*: get: .*404" "verify names the missing object"
create "1- get $object flip-answer 1000"
like "$? $out" "^1 .*/$job/0/.*damaged" "verify names the damaged object"

# The long form: each fault at each kind of request, and at each request of a checkpoint in turn.
if [[ -n ${GPUCKPT_LONG-} ]]; then
	for fault in junk html lost "error200 InternalError"; do
		overcome "1 get $object $fault"
	done
	unset verb
	for fault in "answer 500 InternalError" mute "cut 10" "flip 10"; do
		overcome "1 put /commit- $fault"
	done
	given_up "attempt 10: the answer has no ETag" "1- put $object html"
	given_up "NoSuchBucket" "1- put $object answer 404 NoSuchBucket"
	create
	all=$(requests '^begin ' | wc -l)
	for fault in "answer 500 InternalError" "answer 403 AccessDenied" lost mute silence junk \
		"cut 10"; do
		for ((i = 1; i <= all; i++)); do
			overcome "$i * . $fault"
		done
	done
	check "after them: both commits are whole" alice gpuckpt verify "$job"
	given_up "$job/0/.*attempt" "1- put $object answer 500 InternalError"
	given_up "$job/0/.*no progress" "1- put $object silence"
	given_up "$job/0/" "1- put $object flip 10"
fi

unset verb
check "create, for the restart" create
root scontrol requeue "$job"
faults "1 get $object answer 503 SlowDown" "2 get $object cut-answer 5000" \
	"3 get $object flip-answer 1000" "4 get $object silence" "5 get $object html" \
	"1 get commit- lost" "1 list . answer 500 InternalError" "2 * . refuse"
newest=$(newest_commit "$job")
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 1
check "the ranks run again in spite of faults" wait_ready "$job" 60
faults
is "$(query "$job" .restored)" "$newest" "it is restored from the newest commit"
both_compute "after a restart with faults"

# ---- objects are damaged or missing when the job comes back

# falls_back RESTARTS FAULT: the job comes back from the commit before the newest
falls_back()
{
	local good bad
	check "$2: create" create
	good=$(newest_commit "$job")
	check "$2: create again" create
	bad=$(newest_commit "$job")
	root scontrol requeue "$job"
	faults "1- get /$bad-[0-9a-f]+/[^.]*\$ $2"
	check "$2: Slurm starts the job again" wait_for 90 job_restarted "$job" "$1"
	check "$2: the ranks run again" wait_ready "$job" 60
	faults
	is "$(query "$job" .restored)" "$good" "$2: from the commit before"
	check "$2: the coordinator's log names that commit" \
		grep -q "step $job.0: all ranks fall back to commit $good" \
		"$GPUCKPT_LAB/log/gpuckptd.out"
	both_compute "$2"
}

falls_back 2 "flip-answer 1000"
falls_back 3 "answer 404 NoSuchKey"
finish
