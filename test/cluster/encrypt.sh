#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Encrypted images (encrypt=yes): no data of a rank can be read in the store; the owner restarts
# from the images; other users, root too, cannot read them. The wrapping keys are changed, removed,
# readable by others: the messages, and the job runs on. With --s3 in GPUCKPT_LAB_OPTIONS in an
# object store.
if [[ ${GPUCKPT_LAB_OPTIONS-} = *--s3* ]]; then
	# shellcheck source=s3lib.sh
	. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
else
	s3=
	# shellcheck source=lib.sh
	. "$(dirname "$(readlink -f "$0")")/lib.sh"
fi
keys=$GPUCKPT_LAB/gpuckptd.keys
log=$GPUCKPT_LAB/log/gpuckptd.out
burn=$(program burn)
dir=$(work_dir)
marker=a-word-that-is-in-the-environment-of-each-rank-$$
burn_answers 32 20000 0 0.02 10 >"$dir/want"

# start OPTIONS: a job of two ranks with --gpu-ckpt=OPTIONS; the step has the same fingerprint each
# time
start()
{
	submit "$dir" -N2 -n2 --export="ALL,MARKER=$marker" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $burn 32 20000 50 0.02 10 >rank\$SLURM_PROCID'
	END
}

# goes_on NAME: both ranks print more lines, and all lines are those of an uninterrupted run
goes_on()
{
	local r lines
	for r in 0 1; do
		lines=$(($(wc -l <"$dir/rank$r") + 2))
		check "$1: rank $r prints more" wait_for 30 has_lines "$r" "$lines"
		check "$1: rank $r prints what an uninterrupted run prints" \
			cmp <(head -n "$lines" "$dir/rank$r") <(head -n "$lines" "$dir/want")
	done
}
has_lines() { [[ $(wc -l <"$dir/rank$1") -ge $2 ]]; }

# in_store JOB TEXT: how many of the job's objects and documents contain TEXT
in_store()
{
	local name n=0
	if [[ -z $s3 ]]; then
		root grep -rlaF -- "$2" "$GPUCKPT_LAB/store/lab/$1" | wc -l
		return
	fi
	for name in $(s3_has "/$1/"); do
		request GET "/gpuckpt/$name" >/dev/null
		! grep -qaF -- "$2" "$body" || n=$((n + 1))
	done
	echo $n
}

# list JOB FILTER
list() { alice gpuckpt list "$1" --json | jq -r ".steps[].commits | $2"; }

new_key() { od -An -tx1 -N32 -v /dev/urandom | tr -d ' \n'; }

# set_keys KEY...: the key file of gpuckptd has these; the first one wraps
set_keys()
{
	printf '%s\n' "$@" >"$keys.new"
	chmod 600 "$keys.new"
	mv "$keys.new" "$keys"
}

first=$(<"$keys") second=$(new_key)

# ---- what is in the store

open=$(start compress=none)
check "a step without encrypt= runs under gpuckpt" wait_ready "$open"
check "create" alice gpuckpt create "$open"
check_not "the ranks' environment can be read in the store" test "$(in_store "$open" "$marker")" = 0
end_job "$open"
forged=$(start "encrypt=yes,restart=$open:1")
check "a restart from it with encrypt=yes is refused" wait_for 60 \
	grep -q "commit 1 is not encrypted, and with encrypt=yes only one that is may" "$log"
end_job "$forged"

rm -f "$dir"/rank?
job=$(start encrypt=yes,compress=none,keep=2)
check "a step with encrypt=yes runs under gpuckpt" wait_ready "$job"
check "its ranks have their memory" wait_for 30 have_said "$dir"/rank{0,1}
check "create, encrypted" alice gpuckpt create "$job"
is "$(in_store "$job" "$marker")" 0 "the ranks' environment cannot be read in the store"
is "$(in_store "$job" "$burn")" 0 "nor can the program's name"
check "create again, encrypted" alice gpuckpt create "$job"
is "$(list "$job" '.[1].stored < .[0].stored / 2')" true \
	"the second commit stores only what has changed: $(list "$job" 'map(.stored)|tostring')"
check "alice verifies both commits" alice gpuckpt verify "$job"
out=$(root gpuckpt verify "$job" 2>&1)
report $((! $?)) "root cannot verify them" || diag "$out"
like "$out" "the key of job $job is for user $(alice id -u) alone" "root gets the reason"
unlike "$(cat "$log" "$GPUCKPT_LAB"/log/agents/*)" "$first" "the wrapping key is in no log"

# ---- restart

check "the job is requeued" alice gpuckpt requeue "$job"
check "it is started again" wait_for 60 job_restarted "$job" 1
check "its ranks come back" wait_ready "$job" 60
goes_on "after the requeue"

# ---- another key wraps

set_keys "$second" "$first"
check "create, with another wrapping key" alice gpuckpt create "$job"
is "$(list "$job" '.[-1].stored < .[-1].put / 2')" true \
	"it stores only what has changed since the one before"
check "both commits are whole" alice gpuckpt verify "$job"
set_keys "$second"
check "without the first key the newest commit is whole" \
	alice gpuckpt verify "$job.0" "$(newest_commit "$job")"
out=$(alice gpuckpt verify "$job.0" "$(commits "$job" | sort -n | head -1)" 2>&1)
report $((! $?)) "without the first key the commit before cannot be verified" || diag "$out"
like "$out" "wrapped by key [0-9a-f]{16}, which EncryptionKeyFile=$keys of gpuckptd does not have" \
	"verify names the key that is missing"
set_keys "$second" "$first"

# ---- in a file

check "export" alice gpuckpt export "$job:$(newest_commit "$job")" "$dir/image"
is "$(grep -caF -- "$marker" "$dir/image")" 0 "the ranks' environment cannot be read in the file"
seq=$(newest_commit "$job")
end_job "$job"
check "alice makes another store" alice mkdir "$dir/store2"
check "import" alice gpuckpt import "$dir/image" --store="file:$dir/store2"
next=$(start "store=file:$dir/store2,restart=$job:$seq")
check "another job of alice's restarts from it" wait_ready "$next" 60
goes_on "from the imported image"
end_job "$next"

# ---- no keys

last=$(start encrypt=yes,keep=2)
check "another step with encrypt=yes" wait_ready "$last"
check "create, while the keys are there" alice gpuckpt create "$last"
chmod 640 "$keys"
check "create, while others may read the key file: gpuckptd keeps its keys" \
	alice gpuckpt create "$last"
check "gpuckptd's log has a warning" \
	grep -q "EncryptionKeyFile=$keys: others than its owner may use it (mode 640)" "$log"
"$cluster" kill gpuckptd 2>/dev/null
"$cluster" start gpuckptd >/dev/null 2>&1
check "gpuckptd does not start with such a key file" \
	wait_for 20 grep -q "^gpuckptd: EncryptionKeyFile=$keys: others" "$log"
sed -i '/^EncryptionKeyFile/d' "$GPUCKPT_LAB/etc/gpuckpt.conf"
"$cluster" kill gpuckptd 2>/dev/null
"$cluster" start gpuckptd
out=$(alice gpuckpt create "$last" 2>&1)
report $((! $?)) "without EncryptionKeyFile it starts, and create of an encrypted step fails" ||
	diag "$out"
like "$out" "encrypt=yes: gpuckptd has no keys for encrypted images: set EncryptionKeyFile" \
	"create gives the reason"
like "$(alice gpuckpt able "$last" 2>&1)" "gpuckptd has no keys for encrypted images" \
	"able gives the reason"
is "$(job_state "$last")" RUNNING "the job runs on"
chmod 600 "$keys"
echo "EncryptionKeyFile=$keys" >>"$GPUCKPT_LAB/etc/gpuckpt.conf"
"$cluster" kill gpuckptd 2>/dev/null
"$cluster" start gpuckptd
check "create, with the keys again" alice gpuckpt create "$last"
check "all commits are whole" alice gpuckpt verify "$last"
end_job "$last"

finish
