#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3_clock.sh [swift|ceph]: signatures and time, judged by a real server. A request whose signature
# has expired when it arrives is signed again, and the checkpoint goes on. While gpuckptd's clock is
# hours behind, checkpoints fail with a message that has the seconds, and the job computes on. And
# the clock of a node.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
dir=$(work_dir)
burn=$(program burn)
log=$GPUCKPT_LAB/log/gpuckptd.out
object='/[0-9]+-[0-9a-f]+/[^.]*$' # not a rank's manifest
good_for=600                      # seconds; coordinator/daemon/requests/sign.c has the same
left=10                           # seconds until URLs expire that shall expire soon

gcc -shared -fPIC -O2 -o "$dir/skewed.so" "$top/test/programs/skewed.c" ||
	{ echo "Bail out! skewed cannot be built"; exit 1; }

# clock SECONDS: gpuckptd's clock is ahead by that from now on
clock()
{
	echo "$1" >"$dir/skew.new"
	mv "$dir/skew.new" "$dir/skew"
}

start_skewed()
{
	"$cluster" kill gpuckptd
	"$cluster" start gpuckptd "SKEWED=$dir/skew" "LD_PRELOAD=$dir/skewed.so"
}

create() { alice gpuckpt create "$job" >"$dir/create" 2>&1; }

# computes: the rank prints more
computes()
{
	local before
	before=$(stat -c %s "$dir/rank0")
	wait_for 30 longer "$before"
}
longer() { [[ $(stat -c %s "$dir/rank0") -gt $1 ]]; }

# held OPERATION NAME N: at least N such requests are held in front of the server
held() { [[ $(requests "^begin [0-9]+ $1 .*$2.* hold$" | wc -l) -ge $3 ]]; }
# says REGEX: gpuckptd has logged it since its log had $began lines
says() { tail -n "+$((began + 1))" "$log" | grep -q "$1"; }
is_past() { [[ $EPOCHSECONDS -gt $1 ]]; }
refused() { requests "^end [0-9]+ $1 .*$2.* 403$" | wc -l; }

clock 0
start_skewed
job=$(submit "$dir" -n1 <<-END
	#!/bin/bash
	srun -o rank0 --gpu-ckpt=compress=none $burn 40 20000 50
END
)
check "the step runs under gpuckpt" wait_ready "$job"

# ---- signatures that expire on the way

clock $((left - good_for))
forget
faults "1- put $object hold"
create &
creating=$!
check "objects are on their way" wait_for 30 held put /1- 2
wait_for 20 is_past $((EPOCHSECONDS + left))
faults "1 put /commit- hold"
check "the commit is on its way" wait_for 30 held put /commit-1 1
wait_for 20 is_past $((EPOCHSECONDS + left))
faults
wait $creating
report $? "create succeeds, though signatures expired meanwhile" || diag "$(<"$dir/create")"
check "the server has refused objects" test "$(refused put /1-)" -ge 2
is "$(refused put /commit-1)" 1 "the server has refused the commit"
clock 0
check "it is whole" alice gpuckpt verify "$job"

# ---- a clock that is wrong

# restart_skewed SECONDS REGEX: gpuckptd starts with a clock that is ahead, and its log matches
restart_skewed()
{
	clock "$1"
	began=$(wc -l <"$log")
	start_skewed
	check "gpuckptd with a clock that is off by $1 s logs that when it starts" \
		wait_for 30 says "$2"
}

# Both servers accept signatures from the future; other servers do not.
restart_skewed 7200 \
	"object store s3://gpuckpt: its clock is 7[12].. s behind this host's.* set both by NTP"
check "the step is ready again" wait_ready "$job"
check "create, with signatures from the future" create
check "the commit is whole" alice gpuckpt verify "$job"

clock 0
start_skewed
check "the step is ready with the next gpuckptd" wait_ready "$job"
clock -7200
check_not "create fails while gpuckptd's clock is 7200 s behind" create
message="clock of gpuckptd's host is 7[12].. s behind the object store's: set both by NTP"
like "$(<"$dir/create")" "/$job/0/.* $message" "create gives the reason"
is "$(commits "$job" | xargs)" "1 2" "there is no new commit"
check "the job computes on" computes
restart_skewed -7200 "does not work: .*clock .* NTP"
clock 0
start_skewed
check "the clock is right: the step is ready again" wait_ready "$job"
check "create, with the right clock" create
check "all commits are whole" alice gpuckpt verify "$job"

# ---- a node's clock: a node signs nothing, but it checks the time of a certificate

on_skewed_node()
{
	alice env SKEWED="$dir/skew" LD_PRELOAD="$dir/skewed.so" gpuckpt verify "$job" 2>&1
}
clock 7200
check "verify on a node whose clock is ahead" on_skewed_node
clock -7200
like "$(on_skewed_node)" "/$job/0/.*certificate is not yet valid.* this host's clock .* NTP" \
	"verify on a node whose clock is behind fails with the reason"
"$cluster" kill gpuckptd # the lab is shared
"$cluster" start gpuckptd
finish
