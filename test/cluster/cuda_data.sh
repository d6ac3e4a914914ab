#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a rank's devices have, in the background: kept on the device at a checkpoint and read while the rank runs;
# what becomes of that when the agent is killed or the program wants the room; a node's death, and a commit whose
# device data are damaged, which shows only when the ranks run; the way through a node's disk (stage=). On the
# fake driver (GPUCKPT_CUDA_PROGRAMS has it and cuda_bulk), whose copies take their time where the test says so:
# more than a minute, if nothing ended them.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
built=${GPUCKPT_CUDA_PROGRAMS-}
[[ -x $built/cuda_bulk ]] || { echo "1..0 # SKIP no cuda_bulk in GPUCKPT_CUDA_PROGRAMS"; exit 0; }
bin=$GPUCKPT_LAB/work/cuda_data
mkdir -p "$bin"
cp "$built/cuda_bulk" "$bin"
install -D "$built/libcuda-fake.so" "$bin/fake/libcuda.so.1"
mib=64
dir=$(work_dir)
environment="LD_LIBRARY_PATH=$bin/fake FAKE_CUDA_MEMORY=1024 FAKE_CUDA_DEVICES=2"

grow()
{
	rm -f "$dir/grown"
	alice touch "$dir/grow"
	wait_for 60 test -s "$dir/grown"
}

# create [NAME]: a checkpoint; its answer is in NAME
create() { alice gpuckpt create "$job" --json >"$dir/${1-created}" 2>"$dir/err" || { diag "$(cat "$dir/err")"; return 1; }; }
of() { jq ".steps[0].$2" "$dir/$1"; }
here() { job_nodes "$job" | tr -d n; } # the number of the node that the job is on
# Its ranks are built, and run as far as they come without a GPU.
comes_back() { [[ $(query "$job" .state) = starting ]]; }
restored() { query "$job" .restored; }

make_dirty()
{
	rm -f "$dir/dirtied"
	alice touch "$dir/dirty"
	wait_for 60 test -s "$dir/dirtied"
}

# All windows are changed, and a create has begun to read what the device keeps, which is slow from then on
# until it is over.
create_slowly()
{
	make_dirty
	touch "$dir/slowly"
	alice gpuckpt create "$job" >"$dir/slow" 2>&1 &
	slow=$!
	wait_for 60 reads
}

# More is done than what is in its host memory, which is written first.
reads() { [[ $(query "$job" ".checkpoint | .phase == \"write\" and .done > $host") = true ]]; }

# It fails; its answer is in slow.
fails_slowly()
{
	wait "$slow"
	is "$?" 1 "$1"
	rm "$dir/slowly"
}

# of_device SEQ [damage]: how many windows rank 0's device has in it; or its last byte that only this
# commit has is changed
of_device()
{
	python3 - "$GPUCKPT_LAB/store/lab/$job/0" "$@" <<-END
		import glob, json, sys
		store, seq, damage = sys.argv[1], sys.argv[2], len(sys.argv) > 3
		m = json.load(open(glob.glob(f"{store}/{seq}-*/rank-0.json")[0]))
		windows, chunks = m["image"]["device"], m["store"]["chunks"]
		if not damage:
		    print(len(windows) // 36)
		for i in range(0, len(windows) if damage else 0, 36):
		    n = 55 * int(windows[i + 28:i + 36], 16)
		    name = m["store"]["objects"][int(chunks[n + 32:n + 38], 16)]
		    at = int(chunks[n + 38:n + 44], 16) + int(chunks[n + 44:n + 49], 16) - 1
		    if name.startswith(f"{seq}-"):
		        f = open(f"{store}/{name}", "r+b")
		        f.seek(at)
		        byte = f.read(1)[0]
		        f.seek(at)
		        f.write(bytes([byte ^ 1]))
		        print("damaged")
		        break
	END
}

alice touch "$dir/hold"
# shellcheck disable=SC2086 # words
alice env $environment srun -Q "$bin/cuda_bulk" $mib 400 "$dir" >"$dir/want" &
alone=$!
wait_for 60 test -e "$dir/started"
rm "$dir/hold"
wait "$alone"
report $? "the program alone" || diag "$(cat "$dir/want")"
rm "$dir/started"

alice touch "$dir/hold"
job=$(submit "$dir" -N1 -n1 <<-END
	#!/bin/bash
	export $environment FAKE_CUDA_SLOW=cuMemcpyDtoHAsync_v2=5000@$dir/slowly,cuMemcpyHtoDAsync_v2=5000@$dir/slowly
	srun --gpu-ckpt=cuda=nvidia,compress=none,keep=3 $bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "the step comes under gpuckpt's care" wait_ready "$job"
wait_for 60 test -e "$dir/started"
grow
most=$(cat "$dir/grown")
check "create" create first
host=$(($(of first put) - (mib << 20)))
is "$(of_device 1)" $((mib * 4)) "what the device has is in a list of its own"
check "create again" create second
check "it stores what has changed, and no more" \
	test "$(of second stored)" -lt $(($(of first stored) / 4))

create_slowly
check "the program wants more memory while what the device keeps is read" grow
check "it can have as much as without a checkpoint" test "$(cat "$dir/grown")" -ge "$most"
fails_slowly "which ends the checkpoint"
like "$(cat "$dir/slow")" "needed" "with the reason"
check "the next is made" create

create_slowly
root -n "$(here)" pkill -KILL --newest -x gpuckpt-agent
fails_slowly "the agent is killed while it is read: the checkpoint is aborted"
check "the rank runs on, its agent comes back" wait_ready "$job"
check "and the next checkpoint is made" create third
grow
check "nothing is kept on the device by then" test "$(cat "$dir/grown")" -ge "$most"

good=$(newest_commit "$job")
make_dirty
check "one more" create
is "$(of_device "$(newest_commit "$job")" damage)" damaged "it is damaged where only ranks that run look"
node_dies "$(here)"
check "the node dies: the job is started, and again, from the commit before" \
	wait_for 150 job_restarted "$job" 2
check "its rank comes back, and what its device had" wait_ready "$job" 60
is "$(restored)" "$good" "from the commit before the damaged one"
check "create, after the restart" create

touch "$dir/slowly"
root scontrol requeue "$job"
check "a rank is brought what its device had" wait_for 60 comes_back
root -n "$(here)" pkill -KILL --newest -x gpuckpt-agent
check "the agent is killed meanwhile: the job is started again" wait_for 60 job_restarted "$job" 4
rm "$dir/slowly"
check "its rank comes back this time" wait_ready "$job" 60
check "requeue: all goes through host memory" alice gpuckpt requeue "$job"
is "$(of_device "$(newest_commit "$job")")" 0 "nothing is kept on the device of a rank that is held"
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 5
check "its rank comes back" wait_ready "$job" 60
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "with the answer that the program gives alone"
((failures == 0)) || diag "$(tail -n 30 "$dir/out")"
nodes_back

# ---- through the node's disk

# Each object of a job's commits in the store is another one of the same length.
spoil()
{
	find "$GPUCKPT_LAB/store/lab/$1" -name '????????????????????????????????' \
		-exec sh -c 'printf X | dd of="$0" bs=1 seek=$(($(stat -c %s "$0") - 1)) conv=notrunc status=none' {} \;
}

rm -f "$dir"/{answer,started,dirtied,dirty,grow,grown}
alice touch "$dir/hold"
job=$(submit "$dir" -w n1 -n1 <<-END
	#!/bin/bash
	export $environment
	srun --gpu-ckpt=cuda=nvidia,compress=none,stage=/dev/shm $bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "a step with stage=" wait_ready "$job"
wait_for 20 test -e "$dir/started"
check "create" create
alice touch "$dir/dirty"
wait_for 20 test -s "$dir/dirtied"
check "create, after what the device has was changed" create
is "$(query "$job" .last.unstaged)" null "all of it goes through the disk"
check "what the device has, too" test "$(query "$job" .last.staged)" -gt $((mib << 20))
check "it is whole in the store" alice gpuckpt verify "$job"
spoil "$job"
check_not "till it is damaged there" alice gpuckpt verify "$job"
root scontrol requeue "$job"
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 1
check "its rank comes back, by what is on the disk" wait_ready "$job" 60
is "$(restored)" 2 "from the newest commit"
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "with the answer that the program gives alone"
finish
