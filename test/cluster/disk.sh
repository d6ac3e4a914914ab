#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# disk.sh: the store, and then the stage, is on disks that lie (test/programs/lying_disk.c): on both
# nodes of a job they fail, fill, tear or delay while a checkpoint is written and the job restarts.
# Its ranks go on, a commit that is lost on the disk is not used, and the answers are right.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
{ test -e /dev/fuse && pkg-config --exists fuse3; } || { echo "1..0 # SKIP no FUSE"; exit 0; }

top_dir=$(work_dir)
burn=$(program burn)
args=(16 12000 50)
burn_answers "${args[@]}" >"$top_dir/want"
lying=$top_dir/lying_disk
# shellcheck disable=SC2046 # words
gcc -O2 -D_GNU_SOURCE -o "$lying" "$top/test/programs/lying_disk.c" \
	$(pkg-config --cflags --libs fuse3) || { echo "Bail out! lying_disk.c"; exit 1; }

lie() { echo "$1" >"$top_dir/fault"; }
truth() { rm -f "$top_dir/fault"; }

# mount_on DIR; unmount: DIR is on a disk that lies, on n1 and n2
mount_on()
{
	local n
	for n in 1 2; do
		root -n "$n" install -d -m 1777 "$1"
		root -n "$n" "$lying" "$1" "$top_dir/fault"
	done
	mounted=$1
}
unmount() { root -n 1 umount -l "$mounted"; root -n 2 umount -l "$mounted"; }

begin()
{
	dir=$top_dir/$name
	mkdir "$dir"
	chown --reference="$top_dir" "$dir"
	job=$(submit "$dir" -wn1,n2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1,keep=9 bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
	END
	)
	check "$name: the step runs under gpuckpt" wait_ready "$job"
	check "$name: the ranks have their memory" wait_for 30 have_said "$dir"/rank{0,1}
	check "$name: the first checkpoint" alice gpuckpt create "$job"
}

lines() { cat "$dir"/rank{0,1} | wc -l; }
further() { [[ $(lines) -gt $1 ]]; }

# A job that is held, since no commit could be read, is released.
is_back()
{
	job_restarted "$job" "$1" && ready "$job" && return
	[[ $(job_state "$job") != PENDING ]] || root scontrol release "$job"
	return 1
}
has_tried()
{
	ready "$job" ||
		grep -qE "step $job.0.* (fail|cannot|could not)" <(tail -c +"$1" "$log")
}
log=$GPUCKPT_LAB/log/gpuckptd.out

# lies_in FAULT: in a checkpoint, and in a restart
lies_in()
{
	local fault=$1 status=0 restarts from torn
	restarts=$(job_restarts "$job")
	lie "$fault"
	alice timeout 60 gpuckpt create "$job" >"$dir/create.$fault" 2>&1 || status=$?
	[[ $status -le 1 ]]
	report $? "$name, $fault: create ends in time" || diag "$(cat "$dir/create.$fault")"
	[[ $fault != fill && $fault != fail || $status -eq ${2-1} ]]
	report $? "$name, $fault: it tells whether there is a commit"
	check "$name, $fault: the ranks go on" wait_for 30 further "$(lines)"
	unlike "$(cat "$dir/create.$fault")" "worker process" "$name, $fault: the reason is told"
	[[ $fault != tear ]] || { torn=$(newest_commit "$job"); truth; }
	from=$(stat -c %s "$log")
	root scontrol requeue "$job"
	check "$name, $fault: Slurm starts the job again" wait_for 60 job_restarted "$job" \
		$((restarts + 1))
	wait_for 60 has_tried "$from"
	truth
	check "$name, $fault: it comes back" wait_for 60 is_back $((restarts + 1))
	[[ $fault$name != tearstore || $status -ne 0 ]] ||
		check "$name, $fault: it is restored from the commit before" \
			test "$(query "$job" .restored)" -lt "$torn"
	check "$name, $fault: create" alice gpuckpt create "$job"
}

answers()
{
	touch "$dir/enough"
	check "$name: the job ends" wait_job "$job" COMPLETED 60
	check "$name: rank 0 has the right answer" cmp "$top_dir/want" "$dir/rank0"
	check "$name: rank 1 has the right answer" cmp "$top_dir/want" "$dir/rank1"
}

conf_with RestartFailures=1000
store=$GPUCKPT_LAB/lying
install -d -m 1777 "$store/lab"
name=store
mount_on "$store"
begin "store=file:$store"
for fault in fail fill tear delay; do lies_in "$fault"; done
answers
unmount

name=stage
mount_on /dev/shm/lying
begin "stage=/dev/shm/lying"
for fault in fail fill tear delay; do lies_in "$fault" 0; done
answers
unmount
rm -rf "$store"
finish
