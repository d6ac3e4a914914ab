#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stage.sh: images that go to the nodes' disks first (stage=), on two nodes: a restart takes what is there
# and whole, whatever is wrong with a disk fails nothing that the store can take, and nothing is left. With
# an object store (--s3) an agent and a node die while what is staged is uploaded, too.
lib=lib.sh
[[ ${GPUCKPT_LAB_OPTIONS-} != *--s3* ]] || lib=s3lib.sh
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/$lib"
top_dir=$(work_dir)
burn=$(program burn)
args=(48 500 50)
burn_answers "${args[@]}" >"$top_dir/want"
uid=$(alice id -u)
disk=/dev/shm # of each node its own
own=$disk/gpuckpt-$uid

# begin NAME STAGE [SBATCH-OPTION]: a job with its first commit, on n1 and n2 unless told otherwise
begin()
{
	name=$1 dir=$top_dir/${1//[^a-z]/-} # goes into --export=
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	job=$(submit "$dir" "${3--wn1,n2}" -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt=stage=$2 bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
	END
	)
	check "$name: the step comes under gpuckpt's care" wait_ready "$job"
	check "$name: the ranks have their memory" wait_for 30 have_said "$dir"/rank{0,1}
	check "$name: the first checkpoint" alice gpuckpt create "$job"
}

create() { check "$name: create" alice gpuckpt create "$job"; }
last() { query "$job" ".last.$1"; }

# staged N [DIR]: what lies on node N
staged() { root -n "$1" find "$own/lab/$job/0/${2-}" -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null; }
staged_only() { [[ $(staged "$1" | sed 's/-.*//' | sort -nu | xargs) = "$2" ]]; }
none_staged() { [[ -z $(staged 1)$(staged 2) ]]; }

# each_staged CMD: with the file in $f, of all objects on both nodes
each_staged()
{
	local n
	for n in 1 2; do
		root -n "$n" bash -c "for f in $own/lab/$job/0/*/????????????????????????????????; do $1; done"
	done
}

answers()
{
	alice touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 120
	check "$name: rank 0 has the right answer" cmp "$top_dir/want" "$dir/rank0"
	check "$name: rank 1 has the right answer" cmp "$top_dir/want" "$dir/rank1"
	check "$name: nothing is left on the nodes' disks" wait_for 30 none_staged
}

# again COMMIT: requeued, it comes back from it
again()
{
	root scontrol requeue "$job"
	check "$name: Slurm starts the job again" wait_for 100 job_restarted "$job" 1
	check "$name: the ranks run again" wait_ready "$job" 60
	is "$(query "$job" .restored)" "$1" "$name: from commit $1"
}

# ---- with any store

begin "staged" "$disk"
create
report $(($(last staged) <= 0)) "$name: objects went through the disks" || diag "$(query "$job" .last)"
is "$(last unstaged)" null "$name: all of them"
check "$name: the commit is whole in the store" alice gpuckpt verify "$job"
check "$name: node 1 keeps what the newest commit needs" wait_for 30 staged_only 1 "1 2"
is "$(root -n 1 stat -c '%u %a' "$own" "$own/lab/$job" | sort -u)" "$uid 700" "$name: in alice's own directories"
if [[ $lib = s3lib.sh ]]; then
	forget
	again 2
	is "$(requests '^begin [0-9]+ get .*/[12]-[0-9a-f]+/[0-9a-f]{32}')" "" "$name: no object is fetched from the store"
else
	find "$GPUCKPT_LAB/store/lab/$job" -name '????????????????????????????????' -exec mv {} {}.away \;
	again 2
	find "$GPUCKPT_LAB/store/lab/$job" -name '*.away' -exec bash -c 'mv "$0" "${0%.away}"' {} \;
fi
create
check "$name: gpuckpt requeue, of ranks that are held until it is uploaded" alice gpuckpt requeue "$job"
check "$name: Slurm starts the job once more" wait_for 100 job_restarted "$job" 2
check "$name: the ranks run" wait_ready "$job" 60
is "$(query "$job" .restored)" 4 "$name: from what was held for"
answers

# ---- what is no other with an object store

if [[ $lib = lib.sh || -n ${GPUCKPT_LONG-} ]]; then
	begin "staged and damaged" "$disk"
	create
	# shellcheck disable=SC2016 # for the node's shell
	each_staged 'printf X | dd of=$f bs=1 seek=70000 conv=notrunc status=none'
	again 2
	answers

	begin "staged and encrypted" "$disk,encrypt=yes,compress=none"
	create
	report $(($(last staged) <= 0)) "$name: objects went through the disks" || diag "$(query "$job" .last)"
	is "$(each_staged "grep -laF $burn \$f")" "" "$name: not even a program's name can be read there"
	again 2
	create
	check "$name: the commits are whole" alice gpuckpt verify "$job"
	answers

	begin "no such disk" /nowhere
	like "$(last unstaged)" "n[12]: .*/nowhere.*no such directory" "$name: the image went directly to the store, which is told"
	like "$(alice gpuckpt show "$job")" "Not staged=.*nowhere" "$name: by gpuckpt show too"

	root -n 1 install -d -o bob "$own.bob"
	root -n 1 mv "$own" "$own.alice"
	root -n 1 ln -s "$own.bob" "$own"
	begin "others' directories" "$disk"
	like "$(last unstaged)" "n1: .*gpuckpt-$uid: not a directory" "$name: a link is not followed"
	root -n 1 rm "$own"
	root -n 1 mv "$own.bob" "$own"
	create
	like "$(last unstaged)" "n1: .*belongs to user" "$name: another user's directory is not used"
	is "$(root -n 1 ls "$own")" "" "$name: nor written to"
	root -n 1 rmdir "$own"
	root -n 1 mv "$own.alice" "$own"

	# 64 MiB for all nodes, of which a sixteenth is left to others: an object of 16 MiB fits, all do not.
	small=$GPUCKPT_LAB/small
	head -c 24M /dev/zero >"$small/fill"
	begin "disk full" "$small"
	like "$(last unstaged)" "file system is full|No space left" "$name: what does not fit goes directly to the store"
	check "$name: and the commit is whole" alice gpuckpt verify "$job"
	rm "$small/fill"
	alice touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 120
	gone() { [[ -z $(find "$small" -path "*/lab/$job/*") ]]; }
	check "$name: nothing is left there" wait_for 30 gone

	begin "cancelled" "$disk"
	end_job "$job"
	check_not "$name: a job that is killed leaves what may be wanted" none_staged
	left=$job
	root -n 1 touch -d '2 days ago' "$own/lab/$left/0"
	begin "the user's next job" "$disk"
	check "$name: removes what was left for a day" wait_for 30 root -n 1 test ! -e "$own/lab/$left"
	check "$name: and nothing younger" root -n 2 test -e "$own/lab/$left"
	root -n 2 rm -r "$own/lab/$left"
fi
[[ $lib = s3lib.sh ]] || finish

# ---- while what is staged is uploaded

# upload_held: a create whose upload hangs; sets $creating and $node
upload_held()
{
	local address
	forget
	faults "1- put /2-[0-9a-f]+/ hold"
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	wait_for 30 requests "^begin [0-9]+ put .*/2-[0-9a-f]+/.* hold$" || diag "$name: no upload: $(query "$job" .)"
	address=$(requests "^begin [0-9]+ put .*/2-[0-9a-f]+/.* hold$" | awk 'NR == 1 { print $5 }')
	node=$((${address##*.} - 10))
}

create_failed()
{
	wait "$creating"
	report $((! $?)) "$name: create tells that it failed" || cat "$dir/create"
	diag "$name: create: $(cat "$dir/create")"
}

uploads() { [[ $(query "$job" .state) = uploading ]]; }
no_clone() { [[ $(root -n "$node" pgrep -xc burn) = 1 ]]; }

begin "agent killed in upload" "$disk"
upload_held
check "$name: gpuckpt status says uploading" wait_for 30 uploads
check "$name: meanwhile no copy of the rank's memory stands" wait_for 30 no_clone
supervisor=$(root -n "$node" pgrep -o -x gpuckpt-agent)
root -n "$node" pkill -KILL -x -P "$supervisor" gpuckpt-agent
faults
create_failed
check "$name: another agent comes" wait_ready "$job"
is "$(newest_commit "$job")" 1 "$name: what was staged is no commit"
create
check "$name: what it left is removed with the next commit" wait_for 30 staged_only "$node" "1 3"
answers

begin "node killed in upload" "$disk" -N2
upload_held
node_dies "$node"
faults
create_failed
check "$name: Slurm starts the job again" wait_for 100 job_restarted "$job" 1
check "$name: the ranks run again" wait_ready "$job" 60
is "$(query "$job" .restored)" 1 "$name: from the commit before"
nodes_back
answers
finish
