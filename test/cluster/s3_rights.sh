#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access to an object store: no user's process has its keys, nor does any file or log that a user
# may read; bob has no access to alice's objects. Which store= is accepted. And gpuckptd stops or
# dies during a write that needs URLs from it.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
secret=$(sed -n 's/^secret=//p' "$s3/key")
log=$GPUCKPT_LAB/log/gpuckptd.out
burn=$(program burn)
dir=$(work_dir)
burn_answers 24 20000 0 >"$dir/want"

# known_to UID TEXT: names of that user's processes (not this one) that have TEXT in their memory,
# environment or arguments
known_to()
{
	root python3 - "$@" <<-'END'
	import os, sys
	uid, text = int(sys.argv[1]), sys.argv[2].encode()

	def has(pid):
	    for name in 'environ', 'cmdline':
	        if text in open(f'/proc/{pid}/{name}', 'rb').read():
	            return True
	    memory = open(f'/proc/{pid}/mem', 'rb', buffering=0)
	    for line in open(f'/proc/{pid}/maps'):
	        place, mode = line.split()[:2]
	        if 'rw' not in mode:
	            continue
	        start, end = (int(x, 16) for x in place.split('-'))
	        try:
	            if text in os.pread(memory.fileno(), end - start, start):
	                return True
	        except OSError:
	            pass
	    return False

	looked = 0
	for pid in filter(str.isdigit, os.listdir('/proc')):
	    try:
	        if os.stat(f'/proc/{pid}').st_uid not in (uid, 0) or int(pid) == os.getpid():
	            continue
	        status = open(f'/proc/{pid}/status').read()
	        if int(status.split('Uid:')[1].split()[0]) != uid:
	            continue
	        looked += 1
	        name = open(f'/proc/{pid}/comm').read().strip()
	        if (uid or name == 'gpuckptd') and has(pid):
	            print(name)
	    except (FileNotFoundError, ProcessLookupError):
	        pass
	if not looked:
	    print('no process of this user')
	END
}

check "gpuckptd logs at its start that it reaches the store" \
	wait_for 60 grep -q "info: object store s3://gpuckpt at $endpoint: reached" "$log"

# ---- which store= is accepted

for store in s3://other/lab s3://gpuckpt-2 s3://gpuckpt/../other s3://gpuckpt/; do
	out=$(alice timeout 60 srun -n1 --gpu-ckpt=store=$store true 2>&1)
	report $((! $?)) "srun refuses store=$store" || diag "$out"
	like "$out" "store=$store: " "store=$store: the message has the reason"
	is "$(grep -c 'gpuckpt: ' <<<"$out")" 1 "store=$store: the message is one line"
done

# ---- the keys

job=$(submit "$dir" -N2 -n2 <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn 24 20000 50 >rank\$SLURM_PROCID'
END
)
check "alice's step runs under gpuckpt" wait_ready "$job"
check "alice: create" alice gpuckpt create "$job"
forget
faults "1- put /2-[0-9a-f]+/ hold"
alice gpuckpt create "$job" >"$dir/create" 2>&1 &
creating=$!
check "alice: create again; the image is being written" \
	wait_for 30 requests "^begin [0-9]+ put .*/2-"
uid=$(root id -u alice)
like "$(known_to 0 "$secret")" gpuckptd "gpuckptd has the secret in its memory"
like "$(known_to "$uid" X-Amz-Signature)" gpuckpt "workers and agents have URLs"
is "$(known_to "$uid" "$secret")" "" \
	"no process of alice's has the secret in memory, environment or arguments"
faults
wait $creating
report $? "the second create succeeds" || diag "$(cat "$dir/create")"
check_not "alice cannot read the key file" alice cat "$s3/key"
# A file that has it must be younger than the lab.
is "$(alice find "$GPUCKPT_LAB" /etc /tmp /run -type f -newer "$GPUCKPT_LAB/etc/prefix" \
	-exec grep -lF -- "$secret" {} + 2>/dev/null | head)" "" \
	"no file that alice may read has the secret"
for text in "$secret" X-Amz-Signature; do
	is "$(grep -rlaF -- "$text" "$log" "$GPUCKPT_LAB/log" "$GPUCKPT_LAB/gpuckptd" | head)" "" \
		"neither a log nor the journal has ${text/$secret/the secret}"
done

# ---- bob

for verb in verify remove show; do
	[[ $verb = verify ]] && seq=() || seq=(1)
	check_not "bob: $verb is refused" bob gpuckpt $verb "$job.0" "${seq[@]}"
done
out=$(bob timeout 60 srun -n1 --gpu-ckpt=restart="$job":1 id 2>&1)
report $((! $?)) "bob cannot restart from alice's commit" || diag "$out"
like "$(fetch "$endpoint/gpuckpt/lab/lab/$alice_uid/$job/0/commit-1.json")" '^4' \
	"without a signature the server gives nothing"

# ---- gpuckptd is away

has_commit() { commits "$job" | grep -qx "$1"; }

begun() { [[ $(puts begin "$1") -ge $2 ]]; }

puts() { requests "^$1 [0-9]+ put .*$2" | wc -l; }
# all_answered REGEX: no put of that kind is under way
all_answered()
{
	[[ $(puts begin "$1") = $(puts end "$1") ]]
}

# away NAME REGEX [N]: start a create whose puts of that kind are held from the Nth on
away()
{
	name=$1
	forget
	faults "${3-1}- put $2 hold"
	alice gpuckpt create "$job" >"$dir/create" 2>&1 &
	creating=$!
	check "$name: in the middle of a write" wait_for 30 begun "$2" "${3-1}"
}

away "stopped" /3-
"$cluster" kill gpuckptd STOP
faults
check "stopped: the uploads that had URLs are complete" wait_for 30 all_answered /3-
"$cluster" kill gpuckptd CONT
wait $creating
report $? "stopped: the write waits for URLs, and succeeds" || diag "$(cat "$dir/create")"

away "killed" /4-
"$cluster" kill gpuckptd
faults
wait $creating
"$cluster" start gpuckptd
check "killed: the step is ready with the next gpuckptd" wait_ready "$job" 60
check "killed: create" alice gpuckpt create "$job"
check "killed: all commits are whole" alice gpuckpt verify "$job"
is "$(s3_names lab/ | grep -c "/$job/0/commit-4")" 0 \
	"killed: there is no commit of the create that was under way"

# The first put of the commit gets the answer 501 (If-None-Match); the second goes without that
# header.
away "killed at the commit" /commit-6 2
"$cluster" kill gpuckptd
faults
wait $creating
check "killed at the commit: the commit is written" \
	wait_for 30 requests "^end [0-9]+ put .*/commit-6.* 200$"
"$cluster" start gpuckptd
check "killed at the commit: it counts when gpuckptd is back" wait_for 60 has_commit 6
check "killed at the commit: it is whole" alice gpuckpt verify "$job.0" 6

check "alice: requeue" alice gpuckpt requeue "$job"
check "the job is started again" wait_for 60 job_restarted "$job" 1
check "its ranks run again" wait_ready "$job" 60
check "alice: remove --all" alice gpuckpt remove --all "$job"
end_job "$job"
for rank in rank0 rank1; do
	check "$rank has printed something" test -s "$dir/$rank"
	check "$rank has printed what an uninterrupted run prints" \
		cmp -n "$(stat -c %s "$dir/$rank")" "$dir/want" "$dir/$rank"
done
finish
