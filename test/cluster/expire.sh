#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# expire.sh: KeepAge= and Quota=, in file: stores or, with --s3, an object store: what is too old or too much
# goes out of the store, but nothing that a job would be restarted from; who is above the quota with that is
# refused, but not a requeue. The jobs are carol's, since what other tests left counts too.
user=carol
lib=lib.sh
[[ ${GPUCKPT_LAB_OPTIONS-} != *--s3* ]] || lib=s3lib.sh
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/$lib"
dir=$(work_dir)
burn=$(program burn)
begun=0

# A job of one rank with 24 MiB of noise, which runs until it may end.
begin()
{
	hold=$dir/hold.$((++begun))
	user touch "$hold"
	job=$(submit "$dir" -n1 <<-END
		#!/bin/bash
		srun -o said.$begun --gpu-ckpt $burn 24 1 50 1 100 64 $hold
	END
	)
	check "job $job comes under gpuckpt's care" wait_ready "$job"
	check "it has its memory" wait_for 30 have_said "$dir/said.$begun"
}

# It ends by itself: one that is cancelled may be wanted again.
may_end()
{
	rm "$hold"
	check "job $job ends" wait_job "$job" COMPLETED 60
}

create() { check "$1" user gpuckpt create "$job"; }

# in_store JOB: something of it is
if [[ $lib = s3lib.sh ]]; then
	in_store() { s3_has "/$1/0/"; }
else
	in_store() { [[ -e $GPUCKPT_LAB/store/lab/$1 ]]; }
fi
not_in_store() { ! in_store "$1"; }
none_listed() { [[ -z $(commits "$1" 2>/dev/null) ]]; }

begin
create "a checkpoint of a job that ends"
may_end
old=$job
check "what it has stays, without limits" in_store "$old"

conf_with Quota=30M
begin
create "a checkpoint above the quota with that"
check "what the finished job had is forgotten" wait_for 30 none_listed "$old"
check "and removed" wait_for 90 not_in_store "$old"
check "the running job's is whole" user gpuckpt verify "$job"
create "another one"
is "$(commits "$job" | tail -n 1)" 2 "the newest stays"
check "whole" user gpuckpt verify "$job"

conf_with Quota=1M
check "the step is known again" wait_ready "$job"
like "$(user gpuckpt create "$job" 2>&1)" "user carol.*Quota" "who is above the quota with what is needed is refused"
is "$(newest_commit "$job")" 2 "and loses nothing"
check "a requeue is not refused" user gpuckpt requeue "$job"
check "the job comes back" wait_for 90 job_restarted "$job" 1
check "the ranks run again" wait_ready "$job" 60
is "$(query "$job" .restored)" 3 "from that checkpoint"
is "$(commits "$job" | xargs)" 3 "the only one that is left"

conf_with KeepAge=2s
check "the step is known again" wait_ready "$job"
old=$job
sleep 2
begin
create "a checkpoint of another job"
is "$(query "$old" .last.seq)" 3 "the only one of a running job is not too old"

check "that job is cancelled" user scancel "$old"
check "and ends" wait_job "$old" CANCELLED 60
create "another one of the other job"
is "$(commits "$old" | xargs)" 3 "what was cancelled keeps what it would be restarted from"
check "for it can be requeued by hand" user scontrol requeue "$old"
check "and starts again" wait_for 90 job_restarted "$old" 2
check "its ranks run" wait_ready "$old" 60
is "$(query "$old" .restored)" 3 "from that checkpoint"
user scancel "$old"
may_end
old=$job
sleep 2
begin
create "a checkpoint of a third"
check "what the one that ended had is too old" wait_for 90 not_in_store "$old"
check "what runs has its own" user gpuckpt verify "$job"
may_end
check "what it had is forgotten, too" wait_for 90 none_listed "$job"
[[ $lib = s3lib.sh ]] || check "but of who runs nothing any more it stays in files" in_store "$job"
check "remove --all" user gpuckpt remove --all "$job"
check "then it is gone" wait_for 90 not_in_store "$job"
finish
