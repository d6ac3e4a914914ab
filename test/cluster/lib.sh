# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests on a real cluster: TAP, the lab, jobs. A test is a bash file that sources this,
# runs checks and ends with `finish`. It uses the lab in GPUCKPT_LAB, or starts one of its own from
# GPUCKPT_PREFIX, with the options GPUCKPT_LAB_OPTIONS (--s3: with an object store).
# GPUCKPT_LONG=1 runs the long form.
set -uo pipefail
test_dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
top=$(readlink -f "$test_dir/../..")
cluster=$top/contrib/cluster
tests=0 failures=0

# ---- TAP

# report STATUS NAME...
report()
{
	local status=$1 word=ok
	shift
	tests=$((tests + 1))
	[[ $status -eq 0 ]] || { word='not ok' failures=$((failures + 1)); }
	echo "$word $tests - $*"
	return "$status"
}

diag()
{
	printf '%s\n' "$*" | sed 's/^/# /'
}

# check NAME CMD...: CMD succeeds
check()
{
	local name=$1 out status=0
	shift
	out=$("$@" 2>&1) || status=$?
	report "$status" "$name" && return
	diag "$* gave $status: $out"
	return 1
}

# check_not NAME CMD...: CMD fails
check_not()
{
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		report 1 "$name"
		diag "$* succeeded: $out"
		return 1
	fi
	report 0 "$name"
}

# report_text STATUS NAME GOT WANT: GOT and WANT are shown if it failed
report_text()
{
	report "$1" "$2" && return
	diag "got: $3"$'\n'"want$4"
	return 1
}

# is GOT WANT NAME; like GOT REGEX NAME; unlike GOT REGEX NAME
is()
{
	[[ $1 = "$2" ]]
	report_text $? "$3" "$1" ": $2"
}

like()
{
	[[ $1 =~ $2 ]]
	report_text $? "$3" "$1" " a match of: $2"
}

unlike()
{
	[[ ! $1 =~ $2 ]]
	report_text $? "$3" "$1" " no match of: $2"
}

# finish: end all jobs, try their commits, bring configuration and nodes back for the next test,
# print the plan, exit
finish()
{
	root scancel -u alice
	root scancel -u bob
	root scancel -u carol
	[[ -z ${GPUCKPT_VERIFY-${GPUCKPT_LONG-}} ]] || try_commits
	conf_back
	all_idle || nodes_back
	rm -f "$jobs_made" "$jobs_spoiled"
	echo "1..$tests"
	diag "$SECONDS s"
	[[ $failures -eq 0 ]]
	exit
}

# ---- the lab

# The user whose jobs these are: alice, unless the test says otherwise before it sources this.
user=${user-alice}
root() { "$cluster" exec "$@"; }
user() { "$cluster" exec -u "$user" "$@"; }
alice() { "$cluster" exec -u alice "$@"; }
bob() { "$cluster" exec -u bob "$@"; }

if [[ -z ${GPUCKPT_LAB-} ]]; then
	# shellcheck disable=SC2086 # a list
	lab_made=$("$cluster" up --owner $$ ${GPUCKPT_LAB_OPTIONS-}) ||
		{ echo "Bail out! no cluster"; exit 1; }
	export "${lab_made?}"
	trap '"$cluster" down' EXIT
	trap 'exit 1' INT TERM HUP
fi
home=$GPUCKPT_LAB/work/$user
[[ -x $(cat "$GPUCKPT_LAB/etc/prefix")/sbin/gpuckptd ]] || {
	echo "1..0 # SKIP gpuckpt is not installed in $(cat "$GPUCKPT_LAB/etc/prefix")"
	exit 0
}

# ---- gpuckpt.conf

conf=$GPUCKPT_LAB/etc/gpuckpt.conf
[[ -e $conf.lab ]] || cp "$conf" "$conf.lab"

restart_gpuckptd()
{
	"$cluster" kill gpuckptd 2>/dev/null
	"$cluster" start gpuckptd
}

# conf_with LINE...: gpuckptd restarts with the lab's own configuration and these lines
conf_with()
{
	{ cat "$conf.lab"; printf '%s\n' "$@"; } >"$conf"
	restart_gpuckptd
}

conf_back() { cmp -s "$conf.lab" "$conf" || { cp "$conf.lab" "$conf"; restart_gpuckptd; }; }

# work_dir: make a new directory of the user's for this test, print its path
work_dir()
{
	local dir
	dir=$(mktemp -d "$home/$(basename "$0" .sh).XXXX")
	chown --reference="$home" "$dir"
	chmod 755 "$dir"
	echo "$dir"
}

# program NAME: build test/programs/NAME.c, print the path of the program
program()
{
	local bin=$GPUCKPT_LAB/work/bin source=$top/test/programs/$1.c
	mkdir -p "$(dirname "$bin/$1")"
	[[ $bin/$1 -nt $source ]] || "${CC-gcc}" -O2 -g -o "$bin/$1" "$source" -pthread -lm ||
		{ echo "Bail out! $1 cannot be built"; exit 1; }
	echo "$bin/$1"
}

# need_mpi: the rest of the test needs Open MPI 4.1 and the stand-in for it
need_mpi()
{
	local library
	library=$(cat "$GPUCKPT_LAB/etc/prefix")/lib/gpuckpt/libgpuckpt-mpi.so
	[[ ! -e $library || ! $(command -v mpicc) ]] || return 0
	echo "1..0 # SKIP no Open MPI 4.1, or gpuckpt is built without it"
	exit 0
}

# burn_answers ARGUMENTS...: what an uninterrupted burn prints; it makes no pauses
# shellcheck disable=SC2154 # the test sets it
burn_answers() { BURN_UNTIL=/ "$burn" "$@"; }

# ---- waiting

# last_look CMD...: for a CMD that did not succeed in time: run it once more with set -x, which
# shows the condition that fails
last_look()
{
	diag "waited in vain for: $*"
	diag "$( (set -x; "$@") 2>&1 | tail -n 12 | cut -c 1-400)"
}

# wait_for SECONDS CMD...: until CMD succeeds. SECONDS is far more than it takes on a quiet machine;
# for slow ones it is multiplied by $patience. Only a failure takes all of it.
patience=3
wait_for()
{
	local end=$((SECONDS + $1 * patience))
	shift
	until "$@" >/dev/null 2>&1; do
		[[ $SECONDS -lt $end ]] || { last_look "$@"; return 1; }
		sleep 0.1
	done
}

# ---- jobs

# submit DIR [SBATCH-OPTIONS...] <script: a batch job of the user's that can be requeued, with its
# output in DIR/out; prints its id
submit()
{
	local dir=$1
	shift
	user sbatch --parsable --requeue --open-mode=append --chdir="$dir" -o "$dir/out" "$@" |
		tee -a "$jobs_made"
}
jobs_made=$(mktemp) jobs_spoiled=$(mktemp) # files: submit may run in a subshell

# spoiled JOB: a restart could not use all of its commits, which the test or the job has seen to
spoiled() { echo "$1" >>"$jobs_spoiled"; }

# try_commits: each rank of each commit that the test has made builds, also of jobs that have ended
try_commits()
{
	local job
	while read -r job; do
		! grep -qx "$job" "$jobs_spoiled" || continue
		[[ $(user gpuckpt list "$job" --json 2>/dev/null) = *'"seq"'* ]] || continue
		check "the commits of job $job build" user gpuckpt verify --restore "$job"
	done <"$jobs_made"
}

# job_state JOB: as Slurm names it
job_state()
{
	root squeue -h -t all -j "$1" -o %T
}

job_restarts()
{
	root scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'
}

# job_restarted JOB TIMES: the job runs, and Slurm has started it again at least that often. Slurm
# delays a requeued job until its credentials have expired, for 6 s. Here it starts after 2 s:
# slurmd accepts a credential that is at least a second younger than the one that it revoked. But an
# srun of the run before that waits for tasks of a dead slurmstepd or node ends the step of that
# number seconds later, and a slurmd whose slurmstepd of that run still ends refuses the new one
# ("Duplicate jobid"): while one exists, the job waits as long as Slurm says.
job_restarted()
{
	local job left
	job=$(root scontrol show job "$1")
	[[ $job =~ Restarts=([0-9]+) && ${BASH_REMATCH[1]} -ge $2 ]] || return
	[[ $job != *JobState=PENDING* ]] || end_hung_slurmstepds "$1" "$job"
	if [[ $job = *"JobState=PENDING Reason=BeginTime"* ]]; then
		left=$(($(time_of StartTime "$job") - EPOCHSECONDS))
		[[ $left -le 2 ]] || has_left "$1" ||
			root scontrol update jobid="$1" starttime=now+2
	fi
	[[ $job = *JobState=RUNNING* ]]
}
# time_of NAME JOB-RECORD: in seconds since 1970; the requeue's is SubmitTime
time_of() { [[ $2 =~ $1=([0-9T:-]+) ]] && env -u TZ date -d "${BASH_REMATCH[1]}" +%s; }
# end_hung_slurmstepds JOB RECORD: a slurmstepd whose rank dies while it starts MPI may hang in
# PMIx_server_finalize for ever (libpmix 4.2.2). It is killed a minute after the requeue, as by
# Slurm's UnkillableStepProgram; then it leaves its socket, and none of that name can be made.
end_hung_slurmstepds()
{
	[[ $((EPOCHSECONDS - $(time_of SubmitTime "$2"))) -lt 60 ]] ||
		! root pkill -KILL -f "^slurmstepd: \\[$1\\." ||
		rm -f "$GPUCKPT_LAB"/spool/n?/stepd.slurm.pmix."$1".*
}
# has_left JOB: there is a slurmstepd or an srun of it
# shellcheck disable=SC2016 # for the shell in the lab
has_left()
{
	root pgrep -f "^slurmstepd: \\[$1\\." >/dev/null ||
		root bash -c 'for p in $(pgrep -x srun); do
			! grep -qz "^SLURM_JOB_ID=$0\$" "/proc/$p/environ" || exit 0
		done 2>/dev/null; exit 1' "$1"
}
job_is() { [[ $(job_state "$1") = "$2" ]]; }

# wait_job JOB STATE SECONDS: until it has that state; a failure prints the job's state and story
wait_job()
{
	wait_for "$3" job_is "$1" "$2" && return
	diag "job $1 is $(job_state "$1"), not $2, after $(($3 * patience)) s"
	diag "$(job_story "$1")"
	return 1
}

# job_story JOB: the last lines that it printed, and that Slurm's daemons logged about it
job_story()
{
	tail -n 6 "$(root scontrol show job "$1" | sed -n 's/ *StdOut=//p')"
	(cd "$GPUCKPT_LAB/log" && grep -E "(JobId=|StepId=|\[)$1\b|error:" slurm*.log) |
		grep -vE 'proctrack|plugin loaded|debug levels' | sort -t '[' -k 2 | tail -n 14
}

# end_job JOB...: cancel, and wait until no process of it runs
end_job()
{
	local j
	root scancel "$@" 2>/dev/null
	for j; do
		wait_for 30 no_job "$j"
	done
}

no_job() { [[ -z $(root squeue -h -j "$1" -o %T 2>/dev/null) ]]; }

# ---- gpuckpt

# query JOB FILTER: a jq filter over the step objects of `gpuckpt status JOB`
query()
{
	user gpuckpt status "$1" --json | jq -r ".steps[] | $2"
}

# ready JOB [STEP]: the step runs under gpuckpt, all agents are connected, it can be checkpointed
ready()
{
	user gpuckpt status "$1.${2-0}" --json |
		jq -e '.steps[] | .state == "running" and
			(.nodes | length > 0 and all(.connected))' &&
		user gpuckpt able "$1.${2-0}"
}

wait_ready()
{
	wait_for "${2-30}" ready "$1" && return
	diag "job $1 ($(job_state "$1")) is not ready:"$'\n'"$(job_story "$1")"
	diag "$(user gpuckpt status "$1" --json | jq -c .)"
	return 1
}

# commits JOB [STEP]: sequence numbers of its commits
commits()
{
	user gpuckpt list "$1.${2-0}" --json | jq -r '.steps[].commits[].seq'
}

newest_commit() { commits "$@" | sort -n | tail -1; }

# stored JOB SEQ: STORED of that commit, in bytes
stored() { user gpuckpt list "$1" --json | jq ".steps[].commits[] | select(.seq == $2).stored"; }

# damage_image FILE COPY: COPY is the image in FILE with its largest object overwritten as a whole,
# since nothing may need a part of an object
damage_image()
{
	cp "$1" "$2"
	python3 - "$2" <<-END
	import sys, tarfile
	with tarfile.open(sys.argv[1]) as image:
	    object = max(image.getmembers(), key=lambda member: member.size)
	with open(sys.argv[1], 'r+b') as image:
	    image.seek(object.offset_data)
	    image.write(b'x' * object.size)
	END
	chown --reference="$1" "$2"
}

# have_said FILE...: each has output of a rank, whose main() runs then. A rank is ready before its
# main().
have_said()
{
	local f
	for f; do
		[[ -s $f ]] || return
	done
}

# agents_alone JOB: on each of its nodes the agent of step 0 has lost gpuckptd, or not found it: the
# process lives that logged this last
agents_alone()
{
	local node pid
	local lost='s/.* gpuckpt-agent\[\([0-9]*\)\] warning: coordinator .*; trying again$/\1/p'
	for node in $(job_nodes "$1"); do
		pid=$(sed -n "$lost" "$GPUCKPT_LAB/log/agents/$1.0.$node.log" | tail -n 1)
		[[ $pid ]] || return
		root -n "${node#n}" test -d "/proc/$pid" || return
	done
}

# ---- nodes

all_idle() { [[ $(root sinfo -h -o "%T %D") = "idle 3" ]]; }

# node_dies N: node N is killed and set down in Slurm, as an administrator does; Slurm itself would
# notice after 10 to 25 s. Only tests of that use `cluster node-kill` or `cut` alone.
node_dies()
{
	"$cluster" node-kill "$1"
	root scontrol update nodename="n$1" state=down reason=died
}

# job_nodes JOB: one a line
job_nodes() { root scontrol show hostnames "$(root squeue -h -t all -j "$1" -o %N)"; }

# nodes_back: all nodes run, are connected, idle and reachable, whatever a test did to them
nodes_back()
{
	local n
	for n in 1 2 3; do
		"$cluster" node-start "$n" 2>/dev/null
		"$cluster" mend "$n" 2>/dev/null
		root scontrol update nodename="n$n" state=resume 2>/dev/null
	done
	wait_for 40 all_idle && wait_for 30 all_reached
}

# Connections to a node that was away fail for some time after slurmctld has seen it again.
all_reached() { root srun -Q --immediate=5 -N3 true; }
