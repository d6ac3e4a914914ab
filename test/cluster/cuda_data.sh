#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Device data in the background: a checkpoint copies them on the device and reads the copy while the
# rank runs. The agent is killed meanwhile, or the program needs the memory; a node dies; a commit
# has damaged device data, which is found only when the ranks run; device data go through a node's
# disk (stage=); ranks have seconds of work queued, or end. On the fake driver, which
# GPUCKPT_CUDA_PROGRAMS has beside cuda_bulk. While the
# file "slowly" exists its copies are so slow that they would take more than a minute.
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

# create [NAME]: a checkpoint; what create printed is in the file NAME
create()
{
	alice gpuckpt create "$job" --json >"$dir/${1-created}" 2>"$dir/err" && return
	diag "$(cat "$dir/err")"
	return 1
}
of() { jq ".steps[0].$2" "$dir/$1"; }
here() { job_nodes "$job" | tr -d n; } # the number of the job's node
# Its ranks are built and run, until they need the GPU.
comes_back() { [[ $(query "$job" .state) = starting ]]; }
restored() { query "$job" .restored; }

make_dirty()
{
	rm -f "$dir/dirtied"
	alice touch "$dir/dirty"
	wait_for 60 test -s "$dir/dirtied"
}

# All page groups change; then a create begins to read the copy on the device, which is slow until
# the create is over.
create_slowly()
{
	make_dirty
	touch "$dir/slowly"
	alice gpuckpt create "$job" >"$dir/slow" 2>&1 &
	slow=$!
	wait_for 60 reads
}

# More is written than the rank's host memory, which comes first.
reads() { [[ $(query "$job" ".checkpoint | .phase == \"write\" and .done > $host") = true ]]; }

# fails_slowly NAME: the slow create fails; its message is in the file "slow"
fails_slowly()
{
	wait "$slow"
	is "$?" 1 "$1"
	rm "$dir/slowly"
}

# of_device SEQ [damage]: the number of page groups of rank 0's device in that commit; with "damage"
# a byte of the first object that only this commit has is changed
of_device()
{
	python3 - "$GPUCKPT_LAB/store/lab/$job/0" "$@" <<-END
		import glob, json, sys
		store, seq, damage = sys.argv[1], sys.argv[2], len(sys.argv) > 3
		m = json.load(open(glob.glob(f"{store}/{seq}-*/rank-0.json")[0]))
		groups, chunks = m["image"]["device"], m["store"]["chunks"]
		if not damage:
		    print(len(groups) // 36)
		for i in range(0, len(groups) if damage else 0, 36):
		    n = 55 * int(groups[i + 28:i + 36], 16)
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
report $? "the program runs alone" || diag "$(cat "$dir/want")"
rm "$dir/started"

alice touch "$dir/hold"
job=$(submit "$dir" -N1 -n1 <<-END
	#!/bin/bash
	export $environment
	FAKE_CUDA_SLOW=cuMemcpyDtoHAsync_v2=5000@$dir/slowly
	export FAKE_CUDA_SLOW+=,cuMemcpyHtoDAsync_v2=5000@$dir/slowly
	srun --gpu-ckpt=cuda=nvidia,compress=none,keep=3 $bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "the step runs under gpuckpt" wait_ready "$job"
wait_for 60 test -e "$dir/started"
grow
most=$(cat "$dir/grown")
check "create" create first
host=$(($(of first put) - (mib << 20)))
is "$(of_device 1)" $((mib * 4)) "the manifest lists all page groups of the device"
check "create again" create second
check "it stores only what has changed" \
	test "$(of second stored)" -lt $(($(of first stored) / 4))

create_slowly
check "the program allocates device memory while the copy is read" grow
check "it gets as much as without a checkpoint" test "$(cat "$dir/grown")" -ge "$most"
fails_slowly "that makes the checkpoint fail"
like "$(cat "$dir/slow")" "needed" "the message says that the program needed memory"
check "the next create succeeds" create

create_slowly
root -n "$(here)" pkill -KILL --newest -x gpuckpt-agent
fails_slowly "the agent is killed while the copy is read: the create fails"
check "the rank runs on, and an agent comes back" wait_ready "$job"
check "create with the next agent" create third
grow
check "no copy is left on the device" test "$(cat "$dir/grown")" -ge "$most"

good=$(newest_commit "$job")
make_dirty
check "create a commit to damage" create
spoiled "$job"
is "$(of_device "$(newest_commit "$job")" damage)" damaged \
	"device data of the commit are damaged, which are read when the ranks run"
node_dies "$(here)"
check "the node dies: the job is started twice, the second time from the commit before" \
	wait_for 150 job_restarted "$job" 2
check "its rank comes back with its device data" wait_ready "$job" 60
is "$(restored)" "$good" "it is restored from the commit before the damaged one"
check "create, after the restart" create

touch "$dir/slowly"
root scontrol requeue "$job"
check "requeue: device data come back to the rank" wait_for 60 comes_back
root -n "$(here)" pkill -KILL --newest -x gpuckpt-agent
check "the agent is killed meanwhile: the job is started again" wait_for 60 job_restarted "$job" 4
rm "$dir/slowly"
check "its rank comes back this time" wait_ready "$job" 60
check "gpuckpt requeue: device data go through host memory" alice gpuckpt requeue "$job"
is "$(of_device "$(newest_commit "$job")")" 0 "the held rank has no copy on its device"
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 5
check "its rank comes back" wait_ready "$job" 60
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "its answer is that of the program alone"
((failures == 0)) || diag "$(tail -n 30 "$dir/out")"
nodes_back

# ---- through the node's disk

# spoil JOB: in the store the last byte of each object of its commits changes
spoil()
{
	local object
	find "$GPUCKPT_LAB/store/lab/$1" -name '????????????????????????????????' |
		while read -r object; do
			printf X | dd of="$object" bs=1 seek=$(($(stat -c %s "$object") - 1)) \
				conv=notrunc status=none
		done
}

rm -f "$dir"/{answer,started,dirtied,dirty,grow,grown}
alice touch "$dir/hold"
job=$(submit "$dir" -w n1 -n1 <<-END
	#!/bin/bash
	export $environment
	srun --gpu-ckpt=cuda=nvidia,compress=none,stage=/dev/shm \
		$bin/cuda_bulk $mib 400 $dir >>$dir/answer
END
)
check "a step with stage= runs under gpuckpt" wait_ready "$job"
wait_for 20 test -e "$dir/started"
check "create" create
alice touch "$dir/dirty"
wait_for 20 test -s "$dir/dirtied"
check "create, after the device data have changed" create
is "$(query "$job" .last.unstaged)" null "no node wrote to the store directly"
check "device data went through the disk, too" \
	test "$(query "$job" .last.staged)" -gt $((mib << 20))
check "verify: the store has it whole" alice gpuckpt verify "$job"
spoil "$job"
spoiled "$job"
check_not "verify: after damage in the store it is not whole" alice gpuckpt verify "$job"
root scontrol requeue "$job"
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 1
check "its rank comes back from the disk" wait_ready "$job" 60
is "$(restored)" 2 "it is restored from the newest commit"
rm "$dir/hold"
check "the job ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/answer")" "$(cat "$dir/want")" "its answer is that of the program alone"

# ---- ranks with a long queue, and ranks that end

# queue RANK: it queues seconds of work
queue()
{
	rm -f "$dir/$1/queued"
	alice touch "$dir/$1/queue"
	wait_for 20 test -s "$dir/$1/queued"
}

# ends RANK: it ends by itself
ends()
{
	rm "$dir/$1/hold"
	wait_for 20 lines_in_answer $(($1 + 1))
}
lines_in_answer() { [[ $(wc -l <"$dir/answer") -ge $1 ]]; }
in_phase() { [[ $(query "$job" .checkpoint.phase) = "$1" ]]; }

# create_while PHASE RANK [COMMAND...]: after the command a create, in that phase of which the rank
# ends; again if the phase was over before it was seen
create_while()
{
	local phase=$1 rank=$2 creating
	shift 2
	for _ in 1 2 3 4 5; do
		"$@"
		create meanwhile &
		creating=$!
		while kill -0 "$creating" 2>/dev/null; do
			in_phase "$phase" || continue
			ends "$rank"
			wait "$creating"
			return
		done
		wait "$creating" || return
	done
	return 1
}
queues_named()
{
	alice gpuckpt able "$job" --json |
		jq -ce '[.steps[].items[] | select(.object == "GPU queue").rank]'
}

mib=8
: >"$dir/answer"
for rank in 0 1 2; do
	alice mkdir "$dir/$rank"
	alice touch "$dir/$rank/hold"
done
echo "* $bin/cuda_bulk $mib 400 $dir/%t" >"$dir/programs"
job=$(submit "$dir" -N1 -n3 <<-END
	#!/bin/bash
	export $environment FAKE_CUDA_SLOW=cuMemcpyDtoHAsync_v2=1000@$dir/slowly
	srun --multi-prog --gpu-ckpt=cuda=nvidia,compress=none $dir/programs >>$dir/answer
END
)
check "a step of three ranks runs under gpuckpt" wait_ready "$job"
for rank in 0 1 2; do
	wait_for 20 test -e "$dir/$rank/started"
done
# On a busy machine the work may be done before able looks.
queue_is_named() { queue 1 && [[ $(queues_named) = "[1]" ]]; }
check "able names the rank that has work queued" wait_for 60 queue_is_named
check "create, which waits for that work" create
check "create, while rank 0 ends before ranks are held" create_while prepare 0 queue 1
touch "$dir/slowly"
check "create, while rank 1 ends, whose copy is read: it is tried again" create_while write 1
rm "$dir/slowly"
check "create, of the rank that is left" create
check "verify: its commits build" alice gpuckpt verify --restore "$job"
check "gpuckpt requeue" alice gpuckpt requeue "$job"
check "Slurm starts the job again" wait_for 90 job_restarted "$job" 1
check "the rank that is left comes back" wait_ready "$job" 60
rm "$dir/2/hold"
check "the job ends" wait_job "$job" COMPLETED 60
# shellcheck disable=SC2086 # words
want=$(alice env $environment "$bin/cuda_bulk" $mib 400 "$dir")
is "$(cat "$dir/answer")" "$want"$'\n'"$want"$'\n'"$want" \
	"each rank has given the answer of the program alone, once"
finish
