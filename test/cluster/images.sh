#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A commit is exported to a file and imported into another store; another job goes on from it.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
# Each rank has different noise: memory that two ranks of different nodes have in common would count
# twice in STORED.
arguments="64 400 50 0.02 100"
for rank in 0 1 2 3; do
	# shellcheck disable=SC2086 # words
	burn_answers $arguments $((61 + rank)) >"$dir/want$rank"
done
store=$dir/store2
alice mkdir "$store" "$dir/faults"

# start OPTIONS: a job of four ranks with --gpu-ckpt=OPTIONS; the step has the same fingerprint each
# time
start()
{
	submit "$dir" -N2 -n4 --export="ALL,BURN_UNTIL=$dir/enough,GPUCKPT_FAULT=$dir/faults" \
		<<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 \
			bash -c 'exec $burn $arguments \$((61 + SLURM_PROCID)) >rank\$SLURM_PROCID'
	END
}

# objects_bytes SEQ: the size of all files that this checkpoint wrote, without its manifests
objects_bytes()
{
	find "$GPUCKPT_LAB/store/lab/$job/0" -path "*/$1-*" -type f ! -name '*.json' \
		-printf '%s\n' | awk '{ bytes += $1 } END { print bytes }'
}

job=$(start keep=2)
check "the step runs under gpuckpt" wait_ready "$job"
check "its first commit" alice gpuckpt create "$job"
check "its second, tried at once" alice gpuckpt create --verify "$job"
for seq in 1 2; do
	is "$(stored "$job" $seq)" "$(objects_bytes $seq)" \
		"STORED of commit $seq is the size of its objects"
done
check "verify --quick" alice gpuckpt verify --quick "$job"
tried=$(alice gpuckpt verify --restore --json "$job.0" 2)
is "$(jq -c '[.steps[].commits[].ranks[].builds]' <<<"$tried")" "[true,true,true,true]" \
	"verify --restore: each rank builds"
check "the job is not disturbed" ready "$job"
check "export" alice gpuckpt export "$job:2" "$dir/image"
is "$(alice tar -tf "$dir/image" | tail -1 | sed 's|.*/||')" commit-2.json \
	"the last member of the tar archive is the commit"
is "$(alice stat -c '%U %a' "$dir/image")" "alice 600" "only alice may read the file"
check_not "bob may not export it" bob gpuckpt export "$job:2" /tmp/bob.image
check "the job is cancelled" alice scancel "$job"
check "it ends" wait_job "$job" CANCELLED 60

# ---- verify --restore of a damaged commit names the rank, the object and the reason

saved=$dir/saved
alice cp -a "$GPUCKPT_LAB/store/lab/$job/0" "$saved"
object=$(cd "$saved" && find . -path './2-*' -type f ! -name '*.json' -printf '%s %p\n' |
	sort -n | tail -n 1 | sed 's/.* //')

# broken NAME REGEX CMD...: CMD, run in the step's directory in the store, breaks the commit
broken()
{
	local name=$1 want=$2 status=0 out
	shift 2
	alice env -C "$GPUCKPT_LAB/store/lab/$job/0" "$@"
	out=$(alice gpuckpt verify --restore "$job.0" 2 2>&1) || status=$?
	like "$out" "$want" "$name"
	is $status 1 "$name: the exit status"
	alice rm -rf "$GPUCKPT_LAB/store/lab/$job/0"
	alice cp -a "$saved" "$GPUCKPT_LAB/store/lab/$job/0"
}

before=$(cd "$dir" && ls -l --time-style=full-iso rank?)
broken "an object is missing" "rank [0-3]: .*${object#*/}.*No such file" rm "$object"
broken "an object is damaged" "rank [0-3]: .*${object#*/}.*damaged" \
	dd if=/dev/urandom of="$object" bs=4096 count=1 seek=1 conv=notrunc status=none
broken "a manifest is cut" "rank 2: .*rank-2.json" bash -c 'truncate -s 100 2-*/rank-2.json'
broken "a commit is cut" "commit-2.json" truncate -s 100 commit-2.json
broken "a file of the program is gone" " 3 no +$dir/rank3.*Permission denied" \
	bash -c "mv '$dir/rank3' '$dir/gone' && chmod 500 '$dir'"
alice chmod 755 "$dir"
alice mv "$dir/gone" "$dir/rank3"
chown root "$dir/rank1"
broken "a file is another user's" "rank 1: .*$dir/rank1" true
chown --reference="$dir" "$dir/rank1"
is "$(cd "$dir" && ls -l --time-style=full-iso rank?)" "$before" "no file was changed"
is "$(find "$dir" -name '*gpuckpt-cut*')" "" "and none was made"
check "the whole commit builds" alice gpuckpt verify --restore "$job.0" 2
check_not "root is not its owner" root gpuckpt verify --restore "$job.0" 2

alice head -c -2000 "$dir/image" >"$dir/cut"
chown --reference="$dir" "$dir/cut"
check_not "import refuses a file that is cut off" \
	alice gpuckpt import "$dir/cut" --store="file:$store"
check "import" alice gpuckpt import "$dir/image" --store="file:$store"
check_not "import refuses a commit that the store has" \
	alice gpuckpt import "$dir/image" --store="file:$store"

# ---- import checks the store before it reads the file, which may be large: this one is damaged

import_bad() { alice gpuckpt import "$dir/bad" --store="file:$store" 2>&1; }
damage_image "$dir/image" "$dir/bad"
like "$(import_bad)" "is there already" \
	"a damaged image is refused first because the store has the commit"
step=$store/$(alice ls "$store")/$job/0
alice mv "$step/commit-2.json" "$dir/commit"
alice chmod 500 "$step"
like "$(import_bad)" "Permission denied" "then because alice may not write there"
alice chmod 700 "$step"
like "$(import_bad)" "damaged" "then because it is damaged"
alice mv "$dir/commit" "$step/commit-2.json"

# A restart takes long: one of four ranks is held before its first byte is read. (One beside it may
# wait for chunks that both have.)
alice touch "$dir/enough"
if grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/libexec/gpuckpt-agent"; then
	alice touch "$dir/faults/hold.RESTORE_BUILD"
	next=$(start "store=file:$store,restart=$job:2")
	part_done()
	{
		alice gpuckpt status --json "$next.0" |
			jq -e '.steps[0].restart | .done / .all | . > 0.2 and . < 0.8'
	}
	check "status counts the rank that waits and those that are done" wait_for 60 part_done
	like "$(alice gpuckpt status "$next.0")" " DONE .* [2-7][0-9]%" "in percent"
	told() { grep -q "step $next.0: restoring from checkpoint 2: [2-7][0-9] % of " "$dir/out"; }
	check "the job's output has the line, too" wait_for 60 told
	rm "$dir/faults/held.RESTORE_BUILD"
else
	next=$(start "store=file:$store,restart=$job:2")
fi
check "another job goes on from it" wait_job "$next" COMPLETED 120
check "the coordinator's log names the commit" grep -q \
	"step $next.0 is restored from commit 2 of step $job.0" "$GPUCKPT_LAB/log/gpuckptd.out"
for rank in 0 1 2 3; do
	check "rank $rank has the answer of an uninterrupted run" \
		cmp "$dir/want$rank" "$dir/rank$rank"
done

finish
