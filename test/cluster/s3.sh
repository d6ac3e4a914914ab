#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3.sh [swift|ceph]: checkpoints of two ranks on two nodes in an object store. A requeue; a
# manifest that is too long for one request. On Swift also: a node dies while objects are uploaded,
# between upload and commit, and while the job is restored. After each the answer is that of an
# uninterrupted run.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
top_dir=$(work_dir)
burn=$(program burn)
args=(24 600 50)
burn_answers "${args[@]}" >"$top_dir/want"

like "$(alice gpuckpt check)" "ok +s3 +https://ctl:9000 answers" "gpuckpt check reaches the store"

# begin NAME: a job with its first commit
begin()
{
	name=$1 dir=$top_dir/${1//[^a-z]/-} # no comma: it is part of --export=
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
	END
	)
	check "$name: the step runs under gpuckpt" wait_ready "$job"
	check "$name: the first checkpoint" alice gpuckpt create "$job"
	forget
}

# held_by OPERATION REGEX [SECONDS]: the node whose request is the first of that kind that is held
held_by()
{
	local address
	wait_for "${3-30}" requests "^begin [0-9]+ $1 .*$2.* hold$" ||
		diag "$name: no $1 of $2: $(tail -n 5 "$s3/log")"
	address=$(requests "^begin [0-9]+ $1 .*$2.* hold$" | awk 'NR == 1 { print $5 }')
	echo $((${address##*.} - 10))
}

# create_dying OPERATION REGEX: start a create; the node dies whose request is held, then the
# request goes on
create_dying()
{
	local node creating
	faults "1- $1 $2 hold"
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	node=$(held_by "$1" "$2")
	node_dies "$node"
	faults
	wait $creating
	report $((! $?)) "$name: create fails" || cat "$dir/create"
	diag "$name: node n$node died; create: $(cat "$dir/create")"
}

from() { alice gpuckpt status "$job" --json | jq -r '.steps[0].restored'; }

# again COMMIT [RESTARTS]: the job comes back from that commit and gives the right answer
again()
{
	check "$name: Slurm starts the job again" wait_for 90 job_restarted "$job" "${2-1}"
	check "$name: the ranks run again" wait_ready "$job" 60
	is "$(from)" "$1" "$name: it is restored from commit $1"
	check "$name: a checkpoint after it" alice gpuckpt create "$job"
	alice touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 180
	check "$name: rank 0 has the right answer" cmp "$top_dir/want" "$dir/rank0"
	check "$name: rank 1 has the right answer" cmp "$top_dir/want" "$dir/rank1"
	nodes_back
}

begin "requeue"
check "requeue: the first checkpoint is in the bucket" s3_has "/$job/0/commit-1\.json$"
check "requeue: the second checkpoint" alice gpuckpt create "$job" --json
check "requeue: both commits are whole" alice gpuckpt verify "$job"
is "$(commits "$job" | xargs)" "1 2" "requeue: both commits are listed"

# objects_bytes SEQ: the size of all objects that this checkpoint put, without its manifests
objects_bytes()
{
	wait_for 20 lists "lab/lab/$alice_uid/$job/"
	grep -oE '<Key>[^<]*</Key>|<Size>[0-9]+' "$body" | paste - - |
		sed -nE "s,.*/$job/0/$1-[0-9a-f]+/[0-9a-f]+</Key>.*<Size>,,p" |
		awk '{ bytes += $1 } END { print bytes }'
}

for seq in 1 2; do
	is "$(stored "$job" $seq)" "$(objects_bytes $seq)" \
		"requeue: STORED of commit $seq is the size of its objects"
done
check "requeue: gpuckpt requeue" alice gpuckpt requeue "$job"
again 3
check "requeue: the agents' logs do not have the store's secret" \
	root bash -c "! grep -qaF '$(sed -n 's/^secret=//p' "$s3/key")' $GPUCKPT_LAB/log/agents/*"

# ---- a rank's manifest that is too long for one request

# done_well OPERATION: how many such requests for the manifest got the answer 200, since forget
done_well() { requests "^end [0-9]+ $1 .*/$job/0/.*/rank-0\.json 200$" | wc -l; }
# struck RULE: this fault has struck a request
struck() { requests "^begin .* ${1#* * * }$"; }

name="long manifest" dir=$top_dir/long
mkdir "$dir"
chown --reference="$top_dir" "$dir"
install -m 755 "$top/test/programs/sparse.py" "$dir"
job=$(submit "$dir" -N1 -n1 <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec /usr/bin/python3 sparse.py 50 enough >rank0'
END
)
check "$name: the step runs under gpuckpt" wait_ready "$job"
check "$name: it has its memory" wait_for 30 have_said "$dir/rank0"
forget
check "$name: a checkpoint" alice gpuckpt create "$job"
is "$(done_well put)" 0 "$name: it is not put in one request"
is "$(done_well create)" 1 "$name: one multipart upload is created"
is "$(done_well part)" 2 "$name: it has two parts"
is "$(done_well complete)" 1 "$name: it is completed"
# One fault for each kind of request; the long form has more.
strikes=("1 part . lost" "1 complete . error200 InternalError"
	"1 create . answer 500 InternalError")
[[ -z ${GPUCKPT_LONG-} ]] ||
	strikes+=("2 part . answer 503 SlowDown" "1 part . flip 1000" "1 complete . lost")
for fault in "${strikes[@]}"; do
	forget
	faults "$fault"
	check "$name: create in spite of $fault" alice gpuckpt create "$job"
	check "$name: the fault has struck a request" struck "$fault"
done
faults "1- part . answer 403 AccessDenied"
like "$(alice gpuckpt create "$job" 2>&1)" "rank-0.json.*AccessDenied" \
	"$name: create names the object that was refused"
faults
check "$name: no part is left" wait_for 30 nothing_under_way
check "$name: gpuckpt verify" alice gpuckpt verify "$job"
root scontrol requeue "$job"
check "$name: Slurm starts the job again" wait_for 90 job_restarted "$job" 1
check "$name: the rank runs again" wait_ready "$job" 60
alice touch "$dir/enough"
check "$name: the job ends" wait_job "$job" COMPLETED 180
is "$(tail -n 1 "$dir/rank0")" $((50 * 4096)) "$name: the rank had all of its memory"

[[ $server = swift ]] || finish

begin "death in upload"
create_dying put "/2-[0-9a-f]+/"
again 1
check_not "$name: there is no commit of the incomplete image" s3_has "/$job/0/commit-2\."

begin "death before commit"
create_dying put "/commit-2"
again 1

begin "death in restore"
check "$name: the second checkpoint" alice gpuckpt create "$job"
root scontrol requeue "$job"
forget
faults "1- get /2-[0-9a-f]+/ hold"
node=$(held_by get "/2-[0-9a-f]+/" 90)
node_dies "$node"
faults
again 2 2
finish
