#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that are several processes: a script without exec, which starts one program after the
# other, each beside tee, with other processes behind a name of a pipe and behind a named pipe; a
# Python program with a pool of processes and memory that they share; make, of whose programs one
# waits in system(); a program that has a shell in a pseudo-terminal; one that changes
# the terminal of its step (srun --pty); two ranks that count in POSIX shared memory and in System V
# objects; and programs of test/programs/trees, one of them a static one with static programs. Their
# jobs are requeued twice, and they go on where they were. Where faults can be made, their processes
# may be traced by whom Yama allows it with kernel.yama.ptrace_scope 1, but for the static ones,
# which it would not allow.
# With GPUCKPT_LONG=1 also tmux with a shell, which goes on on another node; and each of
# test/programs/trees is checkpointed at ten random moments, and requeued at some (GPUCKPT_SEED=N
# repeats them).
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
args=(16 200 50)
programs=(pipe.sh locks.sh sqlite.py static.sh ipc.c)
long_programs=(xargs.sh time.sh gxx.sh parallel.sh workers.js Builder.java loky.py mclapply.R
	loader.py goroutines.go)
# io_urings are carried from Linux 6.8 on
if [[ $(cat /proc/sys/kernel/io_uring_disabled) = 0 ]] 2>/dev/null &&
	[[ $(printf '6.8\n%s\n' "$(uname -r)" | sort -V | head -1) = 6.8 ]]; then
	long_programs+=(rings.c)
fi
jobs=()
faults=$(work_dir)
touch "$faults/on.YAMA"

# start NAME COMMAND [TASKS]: a job that runs it in a directory of its own, which $NAME gets, until
# a file `enough` is there
start()
{
	local -n dir=$1
	dir=$(work_dir)
	local until=$dir/enough
	local environment=UNTIL=$until,BURN_UNTIL=$until,POOL_UNTIL=$until,TERMINALS_UNTIL=$until
	[[ $2 =~ static[.]sh|/goroutines$ ]] || environment+=,GPUCKPT_FAULT=$faults
	jobs+=("$(submit "$dir" -N1 -n"${3-1}" --export="ALL,$environment" \
		< <(printf '#!/bin/bash\nsrun --gpu-ckpt=hold=60s %s\n' "$2"))")
}

# on_all DESCRIPTION CMD...: CMD JOB for each job, at the same time
on_all()
{
	local job what=$1 status
	local -A pids=()
	shift
	for job in "${jobs[@]}"; do
		"$@" "$job" >"$faults/said.$job" 2>&1 &
		pids[$job]=$!
	done
	for job in "${jobs[@]}"; do
		status=0
		wait "${pids[$job]}" || status=$?
		report "$status" "$what ($job)" ||
			diag "$* $job gave $status: $(cat "$faults/said.$job")"
	done
}

# command_of FILE: how the program of test/programs/trees is run
command_of()
{
	local run
	case $1 in
	static.sh) run="" ;;
	*.sh) run=bash ;;
	*.py) run=/usr/bin/python3 ;;
	*.js) run=node ;;
	*.java) run="java -Xmx128m" ;;
	*.R) run=Rscript ;;
	*.c) program "trees/${1%.c}" && return ;;
	*.go) echo "$built/${1%.go}" && return ;;
	esac
	echo "$run $top/test/programs/trees/$1"
}

# is_right FILE DIR: its answer there is that of a run without Slurm and checkpoints
is_right()
{
	local want
	want=$(work_dir)
	alice sh -c "cd $want && UNTIL=/ $(command_of "$1") >out 2>&1" || cat "$want/out"
	cmp "$want/final" "$2/final"
}

start script "bash -c 'mkfifo fifo; cat <fifo >kept & exec 9>fifo
for i in 1 2 3; do
	echo \"round \$i\" | tee -a rounds >&9
	$burn ${args[*]} | tee -a answers >(cat >>copy)
done
exec 9>&-; wait'"
start pool "/usr/bin/python3 $top/test/programs/pool.py 100 answers"
start make "make -j2 -f $top/test/programs/system.mk BURN='$burn ${args[*]}'"
start terminals "/usr/bin/python3 $top/test/programs/terminals.py 100 answers"
pair=$(program pair) shm=gpuckpt-pair.$$
own=$(work_dir)
jobs+=("$(submit "$own" -N1 -n1 --export="ALL,GPUCKPT_FAULT=$faults" <<-END
	#!/bin/bash
	script -qec "srun --gpu-ckpt=hold=60s --pty /usr/bin/python3 \
		$top/test/programs/own_terminal.py enough answer" typescript </dev/null
	END
)")
sysv=$(program sysv) key=$(printf '67%06x' $(($$ & 0xffffff)))
start ranks "bash -c '$pair /$shm 20000 5000 enough >>answers &
$sysv $key 20000 5000 enough >>objects
wait'" 2
of_ranks=${jobs[-1]}
for file in "${programs[@]}"; do
	start "${file%.*}" "$(command_of "$file")"
done
# shellcheck disable=SC2154 # start sets them
has_begun()
{
	local file
	for file in "${programs[@]}"; do
		local -n of=${file%.*}
		[[ -s $of/answers ]] || return
	done
	[[ -s $script/rounds ]] && pgrep -x tee && [[ $(wc -l <"$pool/answers") -ge 2 ]] &&
		[[ -s $own/answer && -e $make/one && -e $make/two && -s $terminals/answers ]] &&
		[[ $(pgrep -cx pair) -ge 2 && $(pgrep -cx sysv) -ge 2 ]]
}
is_able() { wait_for 30 alice gpuckpt able "$1"; }
is_ready() { wait_ready "$1" 60; }
has_restarted() { wait_for 60 job_restarted "$2" "$1"; }
completes() { wait_job "$1" COMPLETED 120; }

on_all "the step runs" is_ready
check "all have their processes" wait_for 30 has_begun
on_all "able: it can be checkpointed" is_able
on_all "create" alice gpuckpt create
on_all "a second one" alice gpuckpt create

# Suspended while its processes are held: the signals that are to stop them are not in the image.
suspend_held()
{
	local job=${jobs[0]} creating pid p
	alice touch "$faults/hold.WORKER_FROZEN"
	alice gpuckpt create "$job" >/dev/null &
	creating=$!
	wait_for 30 test -e "$faults/held.WORKER_FROZEN" || return
	for p in $(pgrep -x burn); do
		[[ $(readlink "/proc/$p/cwd") != "$script" ]] || pid=$p
	done
	root scontrol suspend "$job" && wait_for 30 is_to_stop "$pid" || return
	rm "$faults/held.WORKER_FROZEN"
	wait_for 30 is_stopped "$pid" && root scontrol resume "$job" && wait "$creating"
}
is_to_stop() { [[ $(sed -n 's/^ShdPnd:\t//p' "/proc/$1/status") != 0000000000000000 ]]; }
is_stopped() { grep -q '^State:.T (stopped)' "/proc/$1/status"; }
# attach_held FILE: another step attaches what two ranks share while one of them is held; FILE gets
# what create says then.
attach_held()
{
	local creating
	alice touch "$faults/hold.WORKER_FROZEN"
	alice gpuckpt create "$of_ranks" >"$1" 2>&1 &
	creating=$!
	wait_for 30 test -e "$faults/held.WORKER_FROZEN" || return
	alice srun --jobid "$of_ranks" --overlap -n1 /usr/bin/python3 -c "import ctypes, os, time
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
c.shmat(c.shmget(0x$key, 0, 0), None, 0)
open('$faults/attached', 'w')
while os.path.exists('$faults/attached'): time.sleep(0.1)" &
	wait_for 30 test -e "$faults/attached"
	rm "$faults/held.WORKER_FROZEN"
	wait "$creating" && return 1
	rm "$faults/attached"
	wait $!
	grep -q "a process that is none of the step's has attached it" "$1"
}
if grep -q GPUCKPT_FAULT "$(cat "$GPUCKPT_LAB/etc/prefix")/libexec/gpuckpt-agent"; then
	check "a job is suspended while it is held, and resumed" suspend_held
	check "a segment that others attach meanwhile is refused" attach_held "$faults/refused"
fi
on_all "Slurm requeues it" root scontrol requeue
on_all "the job is started again" has_restarted 1
on_all "it can be checkpointed again" is_ready
on_all "create, after a restart" alice gpuckpt create
on_all "requeue, once more" alice gpuckpt requeue
on_all "the job is started again" has_restarted 2
# shellcheck disable=SC2154
alice touch {"$script","$pool","$make","$terminals","$ranks","$own"}/enough
# shellcheck disable=SC2154
alice touch {"$pipe","$locks","$sqlite","$static","$ipc"}/enough
on_all "the job ends" completes
spoiled "${jobs[1]}" # the pool has removed the directory of its sockets

burn_answers "${args[@]}" >"$script/one"
cat "$script/one" "$script/one" "$script/one" >"$script/want"
check "the script's answers are right, and each is there once" cmp "$script/want" "$script/answers"
is "$(wc -l <"$script/rounds")" 3 "the script began each round once"
check "what went through the named pipe is right" cmp "$script/rounds" "$script/kept"
/usr/bin/python3 "$top/test/programs/pool.py" 100 "$pool/want"
check "the pool's answers are right" cmp "$pool/want" "$pool/answers"
/usr/bin/python3 "$top/test/programs/terminals.py" 100 "$terminals/want"
check "the answers from the terminal are right" cmp "$terminals/want" "$terminals/answers"
is "$(tail -n 1 "$own/answer")" \
	"echo 0, interrupt b'\x19', 33 lines of 111, the child in the foreground" \
	"the step's terminal is as the program has set it"
SLURM_PROCID=1 "$pair" "/$shm" 20000 0 / >"$ranks/want" &
SLURM_PROCID=0 "$pair" "/$shm" 20000 0 / >>"$ranks/want"
wait $!
rm "/dev/shm/$shm"
is "$(sort "$ranks/answers")" "$(sort "$ranks/want")" "the number of two ranks is right"
SLURM_PROCID=1 "$sysv" "$key" 20000 0 / >"$ranks/want" &
SLURM_PROCID=0 "$sysv" "$key" 20000 0 / >>"$ranks/want"
wait $!
is "$(sort "$ranks/objects")" "$(sort "$ranks/want")" \
	"their number in System V objects is right"
for answer in one two three; do
	check "make's answers in $answer are right" cmp "$script/one" "$make/$answer"
done
for file in "${programs[@]}"; do
	declare -n of=${file%.*}
	check "the answer of $file is right" is_right "$file" "$of"
done
declare +n of
[[ ${GPUCKPT_LONG-} ]] || finish

jobs=()
start tmux "bash tmux.sh"
# shellcheck disable=SC2154 # start sets it
cat >"$tmux/tmux.sh" <<-'END'
	export TMUX_TMPDIR=$PWD TERM=xterm
	t() { tmux -L gpuckpt -f /dev/null "$@"; }
	t new-session -d -x 90 -s s "bash --norc --noprofile -i"
	t send-keys -t s "n=41" Enter
	touch up
	until [[ -e enough ]]; do sleep 0.1; done
	t send-keys -t s "echo answer \$((n + 1))" Enter
	until t capture-pane -p -t s | grep -q "^answer 42"; do sleep 0.1; done
	echo answered >answer
	script -qec "tmux -L gpuckpt attach \; detach" attached </dev/null >/dev/null
	grep -q "answer 42" attached && echo attached >>answer
	t kill-server
END
on_all "tmux: the step runs" is_ready
check "it has its session" wait_for 30 test -e "$tmux/up"
node=$(job_nodes "${jobs[0]}")
on_all "create" alice gpuckpt create
root scontrol update nodename="$node" state=drain reason=test
on_all "its node is drained: the job is started again" has_restarted 1
unlike "$(job_nodes "${jobs[0]}")" "$node" "on another node"
alice touch "$tmux/enough"
on_all "its shell answers, and the job ends" completes
is "$(xargs <"$tmux/answer")" "answered attached" "the session is attached again"
root scontrol update nodename="$node" state=resume

# ---- random moments

seed=${GPUCKPT_SEED-$EPOCHSECONDS}
diag "GPUCKPT_SEED=$seed repeats the moments"
RANDOM=$seed

# requeue JOB TIMES: it goes on on another node
requeue()
{
	local node
	node=$(job_nodes "$1")
	root scontrol requeue "$1" && root scontrol update jobid="$1" excnodelist="$node" &&
		wait_for 60 job_restarted "$1" "$2" && wait_ready "$1" 60
}

# moments JOB: ten checkpoints; after every third a requeue, some time later
moments()
{
	local i
	for ((i = 1; i <= 10; i++)); do
		sleep "$((RANDOM % 2)).$((RANDOM % 1000))"
		alice gpuckpt create "$1" || return
		[[ $((i % 3)) -eq 0 ]] || continue
		sleep "0.$((RANDOM % 1000))"
		requeue "$1" $((i / 3)) || return
	done
}

built=$(work_dir)
GOCACHE=$built/cache go build -o "$built" "$top/test/programs/trees/goroutines.go"
for file in "${programs[@]}" "${long_programs[@]}"; do
	read -r -a run <<<"$(command_of "$file")"
	if ! command -v "${run[0]}" >/dev/null; then
		diag "$file: ${run[0]} is not here"
		continue
	fi
	jobs=()
	start program "${run[*]}"
	on_all "$file: the step runs" is_ready
	# shellcheck disable=SC2154 # start sets it
	check "$file: it has begun" wait_for 30 test -s "$program/answers"
	on_all "$file: ten checkpoints and three restarts" moments
	alice touch "$program/enough"
	on_all "$file: the job ends" completes
	check "$file: its answer is right" is_right "$file" "$program"
done
finish
