#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A commit leaves its store in a file and comes back into another store: another job goes on from it.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
# Each rank has noise of its own: an object of memory that two ranks of different nodes have alike
# would count twice in STORED.
arguments="64 400 50 0.02 100"
for rank in 0 1 2 3; do
	# shellcheck disable=SC2086 # words
	burn_answers $arguments $((61 + rank)) >"$dir/want$rank"
done
store=$dir/store2
alice mkdir "$store"

# start KEYS: a job whose step is one and the same program, whatever the keys
start()
{
	submit "$dir" -N2 -n4 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $burn $arguments \$((61 + SLURM_PROCID)) >rank\$SLURM_PROCID'
	END
}

# objects_bytes SEQ: of all files that this checkpoint wrote, but for its manifests
objects_bytes()
{
	find "$GPUCKPT_LAB/store/lab/$job/0" -path "*/$1-*" -type f ! -name '*.json' -printf '%s\n' |
		awk '{ bytes += $1 } END { print bytes }'
}

job=$(start keep=2)
check "a step" wait_ready "$job"
check "its first commit" alice gpuckpt create "$job"
check "its second" alice gpuckpt create "$job"
for seq in 1 2; do
	is "$(stored "$job" $seq)" "$(objects_bytes $seq)" "STORED of commit $seq is what its objects take"
done
check "verify --quick" alice gpuckpt verify --quick "$job"
check "export" alice gpuckpt export "$job:2" "$dir/image"
is "$(alice tar -tf "$dir/image" | tail -1 | sed 's|.*/||')" commit-2.json "tar lists it, the commit is last"
is "$(alice stat -c '%U %a' "$dir/image")" "alice 600" "the file is alice's alone"
check_not "bob may not" bob gpuckpt export "$job:2" /tmp/bob.image
check "the job is cancelled" alice scancel "$job"
check "and ends" wait_job "$job" CANCELLED 60

alice head -c -2000 "$dir/image" >"$dir/cut"
chown --reference="$dir" "$dir/cut"
check_not "import: one that is cut off" alice gpuckpt import "$dir/cut" --store="file:$store"
check "import" alice gpuckpt import "$dir/image" --store="file:$store"
check_not "import: not twice" alice gpuckpt import "$dir/image" --store="file:$store"

# ---- that is known before a file, which may be large, is read: this one is damaged

damage_image "$dir/image" "$dir/bad"
like "$(alice gpuckpt import "$dir/bad" --store="file:$store" 2>&1)" "is there already" "nor one that is damaged"
step=$store/$(alice ls "$store")/$job/0
alice mv "$step/commit-2.json" "$dir/commit"
alice chmod 500 "$step"
like "$(alice gpuckpt import "$dir/bad" --store="file:$store" 2>&1)" "Permission denied" "nor where she may not write"
alice chmod 700 "$step"
like "$(alice gpuckpt import "$dir/bad" --store="file:$store" 2>&1)" "damaged" "where she may, it is read"
alice mv "$dir/commit" "$step/commit-2.json"

alice touch "$dir/enough"
next=$(start "store=file:$store,restart=$job:2")
check "another job goes on from it" wait_job "$next" COMPLETED 120
check "as the coordinator says" grep -q "step $next.0 is restored from commit 2 of step $job.0" \
	"$GPUCKPT_LAB/log/gpuckptd.out"
for rank in 0 1 2 3; do
	check "rank $rank has the answer of an uninterrupted run" cmp "$dir/want$rank" "$dir/rank$rank"
done

finish
