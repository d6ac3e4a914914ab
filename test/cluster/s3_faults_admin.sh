#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3_faults_admin.sh [swift|ceph]: faults that stay, at each kind of request of the commands that
# work on commits: verify, export, remove, import, and gpuckptd's sweep after the latter two. Each
# command fails with one line that names the object and the cause, does all or nothing, and succeeds
# when the fault is over. Each fault has a job of its own, so that all wait for their ten attempts
# at the same time.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
dir=$(work_dir)
burn=$(program burn)
silence_is 5 # dozens of commands at once: with less the server may never get to answer

object='[0-9]+-[0-9a-f]+/[^.]*$'
manifest='[0-9]+-[0-9a-f]+/rank-0'

# ---- cases

none=$(($$ * 100)) # numbers of jobs that Slurm does not have, different in each run of this script
job=$none
rules=()
declare -A words

# strike OPERATION NAME FAULT WORDS: at those requests of $job, the next that nobody has; each that
# fails by that says WORDS
strike()
{
	job=$((job + 1))
	rules+=("1- $1 /$job/0/$2 $3")
	words[$job]="/$job(/0/|[.]image).*$4"
}

# long CMD...: in the long form only. Each class of fault, and each kind of request, is there
# without it.
long() { [[ -z ${GPUCKPT_LONG-} ]] || "$@"; }

# at_most N: so many requests are under way
at_most() { (($(requests ^begin | wc -l) - $(requests ^end | wc -l) <= $1)); }

# who_of JOB: root works on half of the jobs, alice on the others.
who_of() { (($1 % 2)) && echo alice || echo root; }

# begin NAME CMD...: in the background, once the server has few requests of the others
begin()
{
	wait_for 60 at_most 8
	{
		"${@:2}" >"$dir/$1.said" 2>"$dir/$1.error"
		echo $? >"$dir/$1.status"
	} &
	running+=($!)
}

# fails JOB WHAT: the command failed, and printed the reason in one line, besides how far it was
# after ten seconds
fails()
{
	local name=$1.$2
	sed -i -E "/^gpuckpt: $1[.]0 checkpoint [12]: [a-z ]+ [0-9]+% of /d" "$dir/$name.error"
	is "$(<"$dir/$name.status") $(wc -l <"$dir/$name.error")" "1 1" \
		"$2, ${rules[$1 - none - 1]}: fails, with one line"
	like "$(<"$dir/$name.error")" "^gpuckpt: .*${words[$1]}" \
		"$2, ${rules[$1 - none - 1]}: names object and cause"
}

# swept_in_vain: what gpuckptd has logged of sweeps that failed
swept_in_vain()
{
	grep -E "step $((none / 100))[0-9][0-9].0: what was removed is still" \
		"$GPUCKPT_LAB/log/gpuckptd.out"
}

# imported JOB SEQ...: import these commits as those of alice's JOB
imported()
{
	local seq
	for seq in "${@:2}"; do
		as_of lab "$1" "$dir/image$seq" "$dir/$1.in"
		alice gpuckpt import "$dir/$1.in" || echo "$1 has no commit $seq" >>"$dir/missing"
	done
	rm "$dir/$1.in"
} >/dev/null

# is_image2 JOB: the store has commit 2 of it, and nothing else
is_image2()
{
	cmp <(s3_names "lab/lab/$alice_uid/$1/0/" | cut -d/ -f6- | sort) \
		<(tar -tf "$dir/image2" | cut -d/ -f4- | sort)
}

# ---- two commits that have objects in common

run=$(submit "$dir" -n1 <<-END
	#!/bin/bash
	srun --gpu-ckpt=compress=none $burn 2 100000 50 1 10
END
)
check "the step runs under gpuckpt" wait_ready "$run"
check "create" alice gpuckpt create "$run"
check "create again" alice gpuckpt create "$run"
for seq in 1 2; do
	check "export of commit $seq" alice gpuckpt export "$run:$seq" "$dir/image$seq"
done
is "$(tar -tf "$dir/image2" | cut -d/ -f4 | grep -o '^[12]-' | sort -u | xargs)" "1- 2-" \
	"commit 2 has objects of both"
end_job "$run"

# ---- the faults

strike list "" "answer 503 SlowDown" "list: attempt 10: .*503 SlowDown"
long strike list "" html "list: attempt 10: .*<html>, where <ListBucketResult>"
long strike list "" "short 30" "list: attempt 10: .*not XML"
long strike list "" "cut-answer 30" "list: attempt 10: "
strike list "" "answer 403 AccessDenied" "list: .*403 AccessDenied.*S3KeyFile"
long strike uploads "" "answer 500 InternalError" "list_multiparts: attempt 10: .*500"
strike uploads "" silence "list_multiparts: attempt 10: .*no progress"
long strike get "$manifest" "answer 500 InternalError" "rank-0.json: get: attempt 10: .*500"
strike get "$manifest" "flip-answer 30" "rank-0.json"
strike get commit-2 lost "commit-2.json: get: attempt 10: "
long strike get commit-2 "short 30" "commit-2.json: get: the object ends"
read_all=$job
long strike head "$object" "answer 503 SlowDown" "head: attempt 10: .*503"
long strike head "$object" lost "head: attempt 10: "
strike head "$object" "answer 404 NoSuchKey" "head: .*404"
strike head "$object" html "head: attempt 10: .*no ETag"
read_lengths=$job
long strike get "$object" "answer 503 SlowDown" "get: .*attempt 10: .*503 SlowDown"
long strike get "$object" silence "attempt 10: .*no progress"
strike get "$object" "cut-answer 1000" "attempt 10: "
strike get "$object" "answer 403 AccessDenied" "get: .*403 AccessDenied"
strike get "$object" "short 1000" "get: the object ends"
strike get "$object" "flip-answer 1000" "[0-9a-f]{32} at 0 is damaged"
long strike get "$object" html "attempt 10: .*no ETag"
read_data=$job
long strike list "\$" "answer 503 SlowDown" "list: attempt 10: .*503"
strike list '[0-9]+-.*/' html "list: attempt 10: .*<html>"
strike uploads '[0-9]+-.*/' "short 30" "list_multiparts: attempt 10: .*not XML"
strike abort "" "answer 500 InternalError" "abort_multipart: attempt 10: .*500"
long strike get "$manifest" "cut-answer 30" "rank-0.json: get: attempt 10: "
long strike get commit-2 "answer 403 AccessDenied" "commit-2.json: get: .*403"
strike delete commit-1 "answer 503 SlowDown" "commit-1.json: delete: attempt 10: .*503"
long strike delete commit-1 lost "commit-1.json: delete: attempt 10: "
strike delete 1- "answer 403 AccessDenied" "delete: .*403"
long strike delete 1- silence "delete: attempt 10: .*no progress"
long strike delete 1- html "delete: attempt 10: .*has a body"
removed=$job
strike put "$object" "answer 503 SlowDown" "put: attempt 10: .*503 SlowDown"
long strike put "$object" "answer 403 AccessDenied" "put: .*403"
strike put "$object" "cut 1000" "put: attempt 10: "
long strike put "$manifest" silence "rank-0.json: put: attempt 10: .*no progress"
strike put "$manifest" "flip 1000" "rank-0.json: put: .*change on their way"
strike put commit-2 "after 500 InternalError" "commit-2.json: put: attempt 10: .*500"
long strike put commit-2 lost "commit-2.json: put: attempt 10: "
long strike put commit-2 html "commit-2.json: put: attempt 10: .*no ETag"
put=$job

for ((i = none + 1; i <= removed; i++)); do
	[[ $i -le $read_data ]] && seqs=(2) || seqs=(1 2)
	imported $i "${seqs[@]}" &
	((i % 4)) || wait
done
wait
check_not "all jobs have their commits" cat "$dir/missing"
for ((i = read_data + 1; i <= removed; i++)); do
	directory=$(tar -tf "$dir/image1" | cut -d/ -f4 | head -n 1)
	request POST "/gpuckpt/lab/lab/$alice_uid/$i/0/$directory/rank-0.json?uploads" >"$dir/code"
	is "$(<"$dir/code")" 200 "$i: an upload that nobody completes is begun"
done

# ---- all commands at once

faults "${rules[@]}"
forget
running=()
for ((i = none + 1; i <= read_data; i++)); do
	begin $i.export alice gpuckpt export "$i:2" "$dir/$i.image"
	begin $i.export-by-root root gpuckpt export "$i:2" "$GPUCKPT_LAB/work/$i.image"
	begin $i.verify "$(who_of $i)" gpuckpt verify $i
	begin $i.verify-quick "$(who_of $i)" gpuckpt verify --quick $i
done
for ((i = read_data + 1; i <= removed; i++)); do
	begin $i.remove "$(who_of $i)" gpuckpt remove $i.0 1
done
for ((i = removed + 1; i <= put; i++)); do
	as_of lab $i "$dir/image2" "$dir/$i.in"
	[[ $(who_of $i) = alice ]] || chown root "$dir/$i.in"
	begin $i.import "$(who_of $i)" gpuckpt import "$dir/$i.in"
done
is "$(commits $((none + 1)) | xargs)" 2 "list makes no request to the store"
wait "${running[@]}"
faults

for ((i = none + 1; i <= read_data; i++)); do
	fails $i export
	fails $i export-by-root
	[[ $i -gt $read_all && $i -le $read_lengths ]] || fails $i verify
	[[ $i -gt $read_lengths ]] || fails $i verify-quick
done
is "$(compgen -G "$dir/*.image*")" "" "no export by alice leaves a file"
is "$(compgen -G "$GPUCKPT_LAB/work/*.image*")" "" "no export by root leaves a file"
check "the commit is whole without faults" alice gpuckpt verify $((none + 1))
for ((i = read_data + 1; i <= removed; i++)); do
	fails $i remove
	check "$i: commit 2 is whole" alice gpuckpt verify $i.0 2
	if commits $i | grep -qx 1; then
		check "$i: commit 1, which still counts, is whole" alice gpuckpt verify $i.0 1
		check "$i: commit 1 can be removed without faults" alice gpuckpt remove $i.0 1
	else
		like "$(<"$dir/$i.remove.error")" \
			"no longer counts .commit 1.* will be removed later" \
			"$i: remove reports that commit 1 no longer counts"
	fi
	check "$i: nothing of commit 1 is left" wait_for 60 is_image2 $i
done
check "no upload is left" wait_for 60 nothing_under_way
like "$(swept_in_vain)" "still in the store" "gpuckptd has logged sweeps that failed"
is "$(swept_in_vain | grep -cvE "$(IFS='|'; echo "${words[*]}")")" 0 \
	"each line names object and cause"
for ((i = removed + 1; i <= put; i++)); do
	fails $i import
	is "$("$(who_of $i)" gpuckpt list $i --json | jq -c '[.steps[].commits[]]')" "[]" \
		"$i: it is not listed"
	check "$i: nothing of it is left" wait_for 60 nothing_of $i
	check "$i: it can be imported without faults" \
		wait_for 60 "$(who_of $i)" gpuckpt import "$dir/$i.in"
done
finish
