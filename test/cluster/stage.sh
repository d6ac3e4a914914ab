#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stage.sh: images that go to the nodes' disks first (stage=), on two nodes. A restart reads from
# the disk what is whole there. A fault of a disk fails no checkpoint that the store can take.
# Nothing is left on the disks. With an object store (--s3) an agent and a node die during the
# upload, too.
lib=lib.sh
[[ ${GPUCKPT_LAB_OPTIONS-} != *--s3* ]] || lib=s3lib.sh
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/$lib"
top_dir=$(work_dir)
burn=$(program burn)
args=(48 500 50)
burn_answers "${args[@]}" >"$top_dir/want"
uid=$(alice id -u)
disk=/dev/shm # each node has its own
own=$disk/gpuckpt-$uid

# begin NAME STAGE [SBATCH-OPTION]: a job with its first commit, on n1 and n2 by default
begin()
{
	name=$1 dir=$top_dir/${1//[^a-z]/-} # no comma: it is part of --export=
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	root scancel -u alice
	all_idle || nodes_back
	job=$(submit "$dir" "${3--wn1,n2}" -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt=stage=$2 bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
	END
	)
	check "$name: the step runs under gpuckpt" wait_ready "$job"
	check "$name: the ranks have their memory" wait_for 30 have_said "$dir"/rank{0,1}
	check "$name: the first checkpoint" alice gpuckpt create "$job"
}

create() { check "$name: create" alice gpuckpt create "$job"; }
last() { query "$job" ".last.$1"; }

# staged N: the job's directories on the disk of node N
staged()
{
	root -n "$1" find "$own/lab/$job/0/" -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null
}
staged_only() { [[ $(staged "$1" | sed 's/-.*//' | sort -nu | xargs) = "$2" ]]; }
none_staged() { [[ -z $(staged 1)$(staged 2) ]]; }

# each_staged CMD: run CMD for each staged object on both nodes; $f is its file
each_staged()
{
	local n
	for n in 1 2; do
		root -n "$n" bash -c "cd $own/lab/$job/0 &&
			for f in */????????????????????????????????; do $1; done"
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

# again COMMIT: the job is requeued and comes back from that commit
again()
{
	root scontrol requeue "$job"
	check "$name: Slurm starts the job again" wait_for 100 job_restarted "$job" 1
	check "$name: the ranks run again" wait_ready "$job" 60
	is "$(query "$job" .restored)" "$1" "$name: it is restored from commit $1"
}

# ---- with any store

begin "staged" "$disk"
create
check "$name: objects went through the disks" test "$(last staged)" -gt 0
is "$(last unstaged)" null "$name: no node wrote to the store directly"
check "$name: the commit is whole in the store" alice gpuckpt verify "$job"
check "$name: node 1 keeps the objects that the newest commit needs" wait_for 30 staged_only 1 "1 2"
is "$(root -n 1 stat -c '%u %a' "$own" "$own/lab/$job" | sort -u)" "$uid 700" \
	"$name: only alice may use the directories"
if [[ $lib = s3lib.sh ]]; then
	forget
	again 2
	is "$(requests '^begin [0-9]+ get .*/[12]-[0-9a-f]+/[0-9a-f]{32}')" "" \
		"$name: no object is fetched from the store"
else
	stored=$GPUCKPT_LAB/store/lab/$job
	find "$stored" -name '????????????????????????????????' -exec mv {} {}.away \;
	again 2
	find "$stored" -name '*.away' -exec bash -c 'mv "$0" "${0%.away}"' {} \;
fi
create
check "$name: gpuckpt requeue, which holds the ranks until the upload is complete" \
	alice gpuckpt requeue "$job"
check "$name: Slurm starts the job again" wait_for 100 job_restarted "$job" 2
check "$name: the ranks run again" wait_ready "$job" 60
is "$(query "$job" .restored)" 4 "$name: it is restored from the commit of the requeue"
answers

# ---- what is the same with an object store

if [[ $lib = lib.sh || -n ${GPUCKPT_LONG-} ]]; then
	begin "staged and damaged" "$disk"
	create
	# shellcheck disable=SC2016 # for the node's shell
	each_staged 'printf X | dd of=$f bs=1 seek=70000 conv=notrunc status=none'
	again 2
	answers

	begin "staged and encrypted" "$disk,encrypt=yes,compress=none"
	create
	check "$name: objects went through the disks" test "$(last staged)" -gt 0
	is "$(each_staged "grep -laF $burn \$f")" "" \
		"$name: the program's name cannot be read on the disks"
	again 2
	create
	check "$name: the commits are whole" alice gpuckpt verify "$job"
	answers

	begin "no such disk" /nowhere
	like "$(last unstaged)" "n[12]: .*/nowhere.*no such directory" \
		"$name: status gives the reason why the image went directly to the store"
	like "$(alice gpuckpt show "$job")" "NotStaged=.*nowhere" "$name: gpuckpt show does, too"

	root -n 1 install -d -o bob "$own.bob"
	root -n 1 mv "$own" "$own.alice"
	root -n 1 ln -s "$own.bob" "$own"
	begin "others' directories" "$disk"
	like "$(last unstaged)" "n1: .*gpuckpt-$uid: not a directory" \
		"$name: a link is not followed"
	root -n 1 rm "$own"
	root -n 1 mv "$own.bob" "$own"
	create
	like "$(last unstaged)" "n1: .*belongs to" \
		"$name: another user's directory is not used"
	is "$(root -n 1 ls "$own")" "" "$name: that directory is empty"
	root -n 1 rmdir "$own"
	root -n 1 mv "$own.alice" "$own"

	# 64 MiB for all nodes, of which a sixteenth is left to others: an object of 16 MiB fits,
	# all do not.
	small=$GPUCKPT_LAB/small
	head -c 24M /dev/zero >"$small/fill"
	begin "disk full" "$small"
	like "$(last unstaged)" "file system is full|No space left" \
		"$name: objects that do not fit go directly to the store"
	check "$name: the commit is whole" alice gpuckpt verify "$job"
	rm "$small/fill"
	alice touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 120
	gone() { [[ -z $(find "$small" -path "*/lab/$job/*") ]]; }
	check "$name: nothing is left there" wait_for 30 gone

	begin "cancelled" "$disk"
	end_job "$job"
	check_not "$name: a cancelled job leaves its objects on the disks" none_staged
	left=$job
	root -n 1 touch -d '2 days ago' "$own/lab/$left/0"
	begin "the user's next job" "$disk"
	check "$name: removes files that are older than a day" \
		wait_for 30 root -n 1 test ! -e "$own/lab/$left"
	check "$name: keeps younger files" root -n 2 test -e "$own/lab/$left"
	root -n 2 rm -r "$own/lab/$left"
fi
[[ $lib = s3lib.sh ]] || finish

# ---- during the upload of staged objects

# upload_held: start a create whose upload hangs; sets $creating, and $node, which uploads
upload_held()
{
	local address upload="^begin [0-9]+ put .*/2-[0-9a-f]+/.* hold$"
	forget
	faults "1- put /2-[0-9a-f]+/ hold"
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	wait_for 30 requests "$upload" || diag "$name: no upload: $(query "$job" .)"
	address=$(requests "$upload" | awk 'NR == 1 { print $5 }')
	node=$((${address##*.} - 10))
}

create_failed()
{
	wait "$creating"
	report $((! $?)) "$name: create fails" || cat "$dir/create"
	diag "$name: create: $(cat "$dir/create")"
}

uploads() { [[ $(query "$job" .state) = uploading ]]; }
no_clone() { [[ $(root -n "$node" pgrep -xc burn) = 1 ]]; }

begin "agent killed in upload" "$disk"
upload_held
check "$name: gpuckpt status shows the upload" wait_for 30 uploads
check "$name: meanwhile there is no clone of the rank" wait_for 30 no_clone
supervisor=$(root -n "$node" pgrep -o -x gpuckpt-agent)
root -n "$node" pkill -KILL -x -P "$supervisor" gpuckpt-agent
faults
create_failed
check "$name: another agent comes back" wait_ready "$job"
is "$(newest_commit "$job")" 1 "$name: there is no new commit"
create
check "$name: the next commit removes the files that the agent left" \
	wait_for 30 staged_only "$node" "1 3"
answers

begin "node killed in upload" "$disk" -N2
upload_held
node_dies "$node"
faults
create_failed
check "$name: Slurm starts the job again" wait_for 100 job_restarted "$job" 1
check "$name: the ranks run again" wait_ready "$job" 60
is "$(query "$job" .restored)" 1 "$name: it is restored from the commit before"
nodes_back
answers
finish
