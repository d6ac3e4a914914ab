#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# expire.sh: KeepAge= and Quota=, in a file: store or, with --s3, in an object store. Commits that
# are too old or above the quota are removed, but never the one that a job would restart from. If
# that one alone is above the quota, create is refused; a requeue is not. The jobs are carol's: the
# commits that other tests left of alice's would count too.
user=carol
lib=lib.sh
[[ ${GPUCKPT_LAB_OPTIONS-} != *--s3* ]] || lib=s3lib.sh
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/$lib"
dir=$(work_dir)
burn=$(program burn)
begun=0

# begin: start a job of one rank with 24 MiB of noise, which runs until may_end
begin()
{
	hold=$dir/hold.$((++begun))
	user touch "$hold"
	job=$(submit "$dir" -n1 <<-END
		#!/bin/bash
		srun -o said.$begun --gpu-ckpt $burn 24 1 50 1 100 64 $hold
	END
	)
	check "job $job runs under gpuckpt" wait_ready "$job"
	check "it has its memory" wait_for 30 have_said "$dir/said.$begun"
}

# may_end: the job ends by itself; a cancelled one could be requeued, and keeps its commit
may_end()
{
	rm "$hold"
	check "job $job ends" wait_job "$job" COMPLETED 60
}

create() { check "$1" user gpuckpt create "$job"; }

# in_store JOB: the store has something of it
if [[ $lib = s3lib.sh ]]; then
	in_store() { s3_has "/$1/0/"; }
else
	in_store() { [[ -e $GPUCKPT_LAB/store/lab/$1 ]]; }
fi
not_in_store() { ! in_store "$1"; }
# older JOB SECONDS: all its commits are
older()
{
	user gpuckpt list "$1" --json |
		jq -e --argjson s "$2" '([.steps[].commits[].time] | max // 0) < now - $s'
}
# older_or_gone JOB SECONDS: of a job that has ended gpuckptd may have removed it by itself
older_or_gone() { older "$1" "$2" || none_listed "$1"; }
none_listed() { [[ -z $(commits "$1" 2>/dev/null) ]]; }

# has_commit JOB SEQ: it is listed
has_commit() { commits "$1" | grep -qx "$2"; }
facts() { jq -c '.steps[].commits[] | [.seq, .stored, .reason, .nodes, .restarts, .hash]'; }

begin
create "a checkpoint of a job that ends"
may_end
old=$job
check "without limits its commit stays" in_store "$old"

conf_with Quota=30M
begin
create "create, above the quota with the finished job's commit"
check "the finished job's commit is not listed any more" wait_for 30 none_listed "$old"
check "it is removed from the store" wait_for 90 not_in_store "$old"
check "the running job's commit is whole" user gpuckpt verify "$job"
create "create again"
is "$(commits "$job" | tail -n 1)" 2 "the newest commit stays"
check "it is whole" user gpuckpt verify "$job"

conf_with Quota=1M
check "the step is known again" wait_ready "$job"
like "$(user gpuckpt create "$job" 2>&1)" "user carol.*Quota" \
	"create is refused if the commit that is needed is above the quota"
is "$(newest_commit "$job")" 2 "that commit stays"
check "gpuckpt requeue is not refused" user gpuckpt requeue "$job"
check "the job comes back" wait_for 90 job_restarted "$job" 1
check "the ranks run again" wait_ready "$job" 60
is "$(query "$job" .restored)" 3 "it is restored from the commit of the requeue"
is "$(commits "$job" | xargs)" 3 "it is the only one that is left"

conf_with KeepAge=2s
check "the step is known again" wait_ready "$job"
old=$job
check "its checkpoint is older than KeepAge" wait_for 20 older "$old" 2
begin
create "create of another job"
is "$(query "$old" .last.seq)" 3 "the only commit of a running job stays, whatever its age"

check "the first job is cancelled" user scancel "$old"
check "it ends" wait_job "$old" CANCELLED 60
create "create of the other job again"
is "$(commits "$old" | xargs)" 3 "the cancelled job keeps its commit"
check "the cancelled job can be requeued" user scontrol requeue "$old"
check "it is started again" wait_for 90 job_restarted "$old" 2
check "its ranks run again" wait_ready "$old" 60
is "$(query "$old" .restored)" 3 "it is restored from its commit"
user scancel "$old"
may_end
old=$job
check "its checkpoint is older than KeepAge" wait_for 20 older_or_gone "$old" 2
begin
create "create of a third job"
check "the commit of the job that ended is too old: it is removed" wait_for 90 not_in_store "$old"
check "the running job's commit is whole" user gpuckpt verify "$job"
may_end
check "its commit is not listed any more, either" wait_for 90 none_listed "$job"
# Its agents remove files, and the user has none any more.
[[ $lib = s3lib.sh ]] || check "but a file: store keeps it" in_store "$job"
check "remove --all" user gpuckpt remove --all "$job"
check "the store has nothing of it" wait_for 90 not_in_store "$job"

# An older journal is put back when the job has ended.
conf_back
begin
create "a checkpoint"
cp "$GPUCKPT_LAB/gpuckptd/journal" "$dir/older"
create "and one more, after a copy of the journal"
may_end
before=$(user gpuckpt list "$job" --json)
"$cluster" kill gpuckptd
cp "$dir/older" "$GPUCKPT_LAB/gpuckptd/journal"
"$cluster" start gpuckptd
check "the older journal is put back: the newer commit is taken from the store" \
	wait_for 60 has_commit "$job" 2
is "$(user gpuckpt list "$job" --json | facts)" "$(facts <<<"$before")" \
	"list shows what it showed before"
check "show knows it" user gpuckpt show "$job.0" 2
is "$(query "$job" .last.seq)" 2 "status too"
check "it is whole" user gpuckpt verify "$job"
finish
