#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3_clock.sh [swift|ceph]: signatures and time, by the server's own judgement: requests whose signature expires
# before they come to it are signed anew, and the checkpoint goes on; while gpuckptd's clock is behind by
# hours it fails, says so with the seconds, and the job computes on; and what a node's clock does.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
dir=$(work_dir)
burn=$(program burn)
log=$GPUCKPT_LAB/log/gpuckptd.out
object='/[0-9]+-[0-9a-f]+/[^.]*$' # not a rank's manifest
good_for=600                      # seconds, coordinator/daemon/requests/sign.c
left=10                           # of them, for URLs that soon expire

gcc -shared -fPIC -O2 -o "$dir/skewed.so" "$top/test/programs/skewed.c" ||
	{ echo "Bail out! skewed cannot be built"; exit 1; }

# clock SECONDS: so much gpuckptd's is ahead from now on
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

# computes: there is more of it than before
computes()
{
	local before
	before=$(stat -c %s "$dir/rank0")
	wait_for 30 longer "$before"
}
longer() { [[ $(stat -c %s "$dir/rank0") -gt $1 ]]; }

# held OPERATION NAME N: so many requests wait in front of the server
held() { [[ $(requests "^begin [0-9]+ $1 .*$2.* hold$" | wc -l) -ge $3 ]]; }
# says REGEX: gpuckptd, since its log had $began lines
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
check "a step" wait_ready "$job"

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
report $? "a checkpoint whose signatures expired meanwhile" || diag "$(<"$dir/create")"
is "$(($(refused put /1-) >= 2)) $(refused put /commit-1)" "1 1" "the server has refused objects and the commit"
clock 0
check "it is whole" alice gpuckpt verify "$job"

# ---- a clock that is wrong

# restart_skewed OFF REGEX: gpuckptd starts with that clock, and says so
restart_skewed()
{
	clock "$1"
	began=$(wc -l <"$log")
	start_skewed
	check "gpuckptd with a clock that is off by $1 s says so when it starts" wait_for 30 says "$2"
}

# Both servers take what is signed for later; others do not.
restart_skewed 7200 "object store s3://gpuckpt: its clock is 7[12].. s behind this host's.* set both by NTP"
check "the step is known to it" wait_ready "$job"
check "these servers take its signatures" create
check "of a commit that is whole" alice gpuckpt verify "$job"

clock 0
start_skewed
check "the step is known to the next" wait_ready "$job"
clock -7200
check_not "while its clock is off by -7200 s there is no checkpoint" create
like "$(<"$dir/create")" "/$job/0/.* clock of gpuckptd's host is 7[12].. s behind the object store's: set both by NTP" \
	"and why is said"
is "$(commits "$job" | xargs)" "1 2" "there is no other commit"
check "the job computes on" computes
restart_skewed -7200 "does not work: .*clock .* NTP"
clock 0
start_skewed
check "the clock is right again" wait_ready "$job"
check "a checkpoint" create
check "which is whole" alice gpuckpt verify "$job"

# ---- a node's clock: it signs nothing, but a certificate has its time

on_skewed_node() { alice env SKEWED="$dir/skew" LD_PRELOAD="$dir/skewed.so" gpuckpt verify "$job" 2>&1; }
clock 7200
check "a node whose clock is ahead reads what it needs" on_skewed_node
clock -7200
like "$(on_skewed_node)" "/$job/0/.*certificate is not yet valid.* this host's clock .* NTP" \
	"one whose clock is behind the certificate's says so"
"$cluster" kill gpuckptd # the lab may be there for others
"$cluster" start gpuckptd
finish
