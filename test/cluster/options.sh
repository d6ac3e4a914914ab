#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Wrong options, configuration and arguments are refused by name, before anything happens.
# shellcheck disable=SC2016 # for shells in the lab
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
dir=$(work_dir)

# ---- srun's option

refuse_option()
{
	local out status=0
	out=$(alice srun -n1 --gpu-ckpt="$1" touch "$dir/launched" 2>&1) || status=$?
	like "$status $out" "^[1-9].*$2" "srun refuses --gpu-ckpt=$1 and names $2"
}

refuse_option bogus=1 bogus
refuse_option bogus bogus
refuse_option interval=often interval
refuse_option interval=-5 interval
refuse_option store=somewhere store
refuse_option stage=relative stage
refuse_option stage= stage
refuse_option stage=file:/tmp stage
refuse_option keep=0 keep
refuse_option keep=two keep
refuse_option compress=rar compress
refuse_option compress=zstd:fast compress
refuse_option timeout=0 timeout
refuse_option hold=x hold
refuse_option restart-wait=soon restart-wait
refuse_option mpi=lam mpi
refuse_option cuda=rocm cuda
refuse_option files=many files
refuse_option restart=sometimes restart
refuse_option restart=7:x restart
refuse_option skip-done=maybe skip-done
refuse_option require=perhaps require
refuse_option cpus=0 cpus
refuse_option quiet=shh quiet
refuse_option kernels=,a kernels
refuse_option keep=2,,bogus=3 bogus
like "$(alice srun -n1 --gpu-ckpt interval=20m,keep=2 touch "$dir/launched" 2>&1)" \
	"interval=20m,keep=2 is taken for the program: write --gpu-ckpt=interval=20m,keep=2," \
	"srun --gpu-ckpt KEY=VALUE, with a blank for =, is refused"
check_not "nothing was launched by a refused srun" test -e "$dir/launched"
check_not "sbatch refuses a wrong key" alice sbatch --gpu-ckpt=bogus=1 --wrap true
check_not "salloc refuses a wrong key" alice salloc -n1 --gpu-ckpt=bogus=1 true
good=interval=1h30m,keep=3,stage=/tmp,compress=zstd:3,timeout=90s,hold=2s,restart-wait=1m
good+=,mpi=none,cuda=none,files=64M
check "srun takes every key with a good value" timeout 60 "$cluster" exec -u alice \
	srun -n1 --gpu-ckpt=$good,restart=auto,skip-done=no,require=yes,cpus=2,quiet=yes,kernels=a \
	true
is "$(alice srun -n1 --gpu-ckpt=kernels=a,_Z1bv,keep=1 \
	sh -c 'echo "$GPUCKPT_KERNELS"')" \
	a,_Z1bv "kernels= reaches the tasks"
is "$(alice env GPUCKPT_KERNELS=c srun -n1 --gpu-ckpt=keep=1 \
	sh -c 'echo "$GPUCKPT_KERNELS"')" "" "only that of the step does"
check "srun --help has the option" grep -q gpu-ckpt <(alice srun --help)

# ---- a restart from a commit that is not there

job=$(submit "$dir" -n1 <<-END
	#!/bin/bash
	srun --gpu-ckpt=restart=4000000:3 touch $dir/launched
END
)
missing="step 4000000.0 has no commit 3: it has none in .*; see .gpuckpt list 4000000., and correct"
held() { [[ $(root squeue -h -j "$1" -o %r) = "job requeued in held state" ]]; }
check "restart= names a commit that is not there: the job is held" wait_for 20 held "$job"
like "$(cat "$dir/out")" "$missing" "its output says what is missing, what there is, what to do"
like "$(alice gpuckpt status "$job")" "$missing" "gpuckpt status does"
like "$(root scontrol show job "$job")" "AdminComment=gpuckpt: .*$missing" "AdminComment does"
"$cluster" kill gpuckptd
"$cluster" start gpuckptd
like "$(alice gpuckpt status "$job")" "$missing" "gpuckpt status still does after gpuckptd was away"
job=$(submit "$dir" -n1 -o "$dir/own" <<-END
	#!/bin/bash
	srun --gpu-ckpt=restart=9 touch $dir/launched
	sleep 5 # Slurm sometimes ends srun a moment before the script
	echo went-on
END
)
check "a job's first start from a commit that it has not: the job is held" wait_for 20 held "$job"
like "$(cat "$dir/own")" "step $job.0 has no commit 9: it has none in " "its output says why"
unlike "$(cat "$dir/own")" went-on "its script does not go on"
job=$(submit "$dir" -n1 --no-requeue -o "$dir/goes-on" <<-END
	#!/bin/bash
	exec srun --gpu-ckpt=restart=9 touch $dir/launched
END
)
check "with --no-requeue it fails" wait_job "$job" FAILED 20
like "$(cat "$dir/goes-on")" "$job was submitted with --no-requeue, so it is not held: its script" \
	"its output says that it is not held"
check_not "their steps were not launched" test -e "$dir/launched"

# ---- the option from the environment, as Slurm's own

# from VALUE COMMAND...: alice's command, with VALUE as NAME=TEXT in its environment
from() { "$cluster" exec -u alice env "$@" 2>&1; }
# The plugin gives a rank its link: on, or off.
is_on='[ "$GPUCKPT_LINK" ] && echo on || echo off'
for value in '' yes keep=3; do
	is "$(from SLURM_GPU_CKPT=$value srun -Q -n1 sh -c "$is_on")" on \
		"srun takes SLURM_GPU_CKPT=$value"
done
is "$(from SLURM_GPU_CKPT=no srun -Q -n1 sh -c "$is_on")" off "SLURM_GPU_CKPT=no is no option"
is "$(from SBATCH_GPU_CKPT=yes SALLOC_GPU_CKPT=yes srun -Q -n1 sh -c "$is_on")" off \
	"srun does not take those of sbatch and salloc"
is "$(from SLURM_GPU_CKPT=mpi=none srun -Q -n1 --gpu-ckpt=mpi=openmpi sh -c 'echo $GPUCKPT_MPI')" \
	openmpi "srun's own option wins"
is "$(from SLURM_GPU_CKPT=mpi=openmpi srun -Q -n1 sh -c 'echo $GPUCKPT_MPI')" openmpi \
	"the keys of SLURM_GPU_CKPT count"
for command in "SLURM srun -n1 true" "SBATCH sbatch --wrap true" "SALLOC salloc -Q -n1 true"; do
	name=${command%% *}_GPU_CKPT
	# shellcheck disable=SC2086 # words
	out=$(from "$name=bogus=1" ${command#* })
	like "$? $out" "^1 .*gpuckpt: $name: .*bogus" "${command#* }: a wrong $name is named"
done
is "$(from SALLOC_GPU_CKPT=yes salloc -Q -n1 srun -Q sh -c "$is_on")" on \
	"SALLOC_GPU_CKPT is for each srun of the allocation"
is "$(from SALLOC_GPU_CKPT=yes SLURM_GPU_CKPT=no salloc -Q -n1 srun -Q sh -c "$is_on")" off \
	"there SLURM_GPU_CKPT=no is no option, either"
for export in ALL NONE; do
	from SBATCH_GPU_CKPT=mpi=openmpi sbatch -Q -W --open-mode=append --export=$export \
		-o "$dir/$export" --wrap 'srun -Q /bin/sh -c "echo \$GPUCKPT_MPI"' >/dev/null
	is "$(cat "$dir/$export")" openmpi "SBATCH_GPU_CKPT is for each srun, with --export=$export"
done
from SBATCH_GPU_CKPT=mpi=openmpi sbatch -Q -W --open-mode=append -o "$dir/last" \
	--gpu-ckpt=mpi=auto --wrap 'srun -Q sh -c "echo \$GPUCKPT_MPI"' >/dev/null
is "$(cat "$dir/last")" auto "sbatch's own option wins"

# ---- the CLI's arguments

gives()
{
	local want=$1 status=0 out
	shift
	out=$(alice gpuckpt "$@" 2>&1) || status=$?
	is "$status" "$want" "gpuckpt $* gives $want" || diag "$out"
}

gives 2
gives 2 frobnicate
gives 2 create
gives 2 create one
gives 2 create 1.2.3
gives 2 create -- -1
gives 2 create 99999999999
gives 2 list --frobnicate
gives 2 show
gives 1 create 4000000
gives 1 status 4000000
gives 0 --help
gives 0 --version
like "$(alice gpuckpt create 4000000 2>&1)" 4000000 "the message names the job"

# ---- gpuckpt check: in a lab, and with one thing broken at a time

found()
{
	"$cluster" exec "${@:3}" gpuckpt check 2>&1 | grep -E "^$1 +$2 "
}

check "gpuckpt check finds no error" alice gpuckpt check
like "$(alice gpuckpt check)" "ok +plugin.*ok +libraries" "it looks at the plugin and libraries"
like "$(found warning slurm -u alice)" "SlurmdTimeout is 5 s" "it warns of a short SlurmdTimeout"
is "$(alice gpuckpt check --json | jq -r 'select(.check == "munge") | .node + " " + .state')" \
	"ctl ok" "--json has the node, the check and its state"
out=$(root gpuckpt check --all 2>&1)
like "$? $out" "^0 .*ok +n\[1-3\] +munge" "--all checks the nodes, and equal findings share a line"

printf '%s\n' "Bogus=1" >"$dir/bad.conf"
out=$(alice gpuckpt check -f "$dir/bad.conf")
like "$? $out" "^1 .*error +configuration.*bad.conf:1.*Bogus" "a wrong gpuckpt.conf is an error"
sed 's/^CoordinatorHost=.*/CoordinatorHost=ctl\nCoordinatorPort=1/' "$conf.lab" >"$dir/port.conf"
like "$(alice gpuckpt check -f "$dir/port.conf")" "error +gpuckptd.*ctl port 1.*start gpuckptd" \
	"a gpuckptd that does not answer"
{ cat "$conf.lab"; echo MungeSocket=/nowhere; } >"$dir/munge.conf"
like "$(alice gpuckpt check -f "$dir/munge.conf")" "error +munge.*/nowhere" "no munged"
store=$GPUCKPT_LAB/store/lab
if [[ -d $store ]]; then
	chmod 755 "$store"
	like "$(found error store -u alice)" "cannot be written by this user.*install -d" \
		"a store that the user cannot write"
	like "$(found error store)" "cannot be written by users" "root is told that users cannot"
	chmod 777 "$store"
	like "$(found warning store)" "remove each other's" "a store without its sticky bit"
	chmod 1777 "$store"
fi
like "$(found ok limits -u alice)" "open files .*, KiB of locked memory" "it shows the limits"
like "$(alice bash -c 'ulimit -n 100 -f 1000; gpuckpt check')" \
	"warning +limits .*\(ulimit -n\): 100:.*Propagate.*warning +limits .*\(ulimit -f\): 1000:" \
	"it warns of limits that are too low"
{
	grep -v '^AgentLog' "$conf.lab"
	printf '%s\n' "DefaultStage=$dir/none" "AgentLog=$dir/none/%u/%j.log"
} >"$dir/dirs.conf"
like "$(alice gpuckpt check -f "$dir/dirs.conf")" \
	"ok +stage .*is not there, which only nodes need" \
	"directories of nodes are needed there alone"
like "$(alice srun -n1 gpuckpt check -f "$dir/dirs.conf")" \
	"error +stage .*/none: No such file.*install -d.*error +log .*/none: No such file" \
	"on a node a directory that is not there is an error"
s3=(S3Store=s3://bucket/x S3Endpoint=http://127.0.0.1:1)
printf '%s\n' "${s3[@]}" | cat "$conf.lab" - >"$dir/s3.conf"
like "$(alice gpuckpt check -f "$dir/s3.conf")" \
	"error +s3 .*http://127.0.0.1:1: .*let nodes reach it" \
	"an object store that a node does not reach"
{ cat "$conf.lab"; echo PreloadPath=/nowhere/p.so; } >"$dir/preload.conf"
like "$(alice gpuckpt check -f "$dir/preload.conf")" \
	"error +libraries.*/nowhere/p.so.*PreloadPath" \
	"a preload that is not there"
echo "not a library" >"$dir/p.so"
{ cat "$conf.lab"; echo PreloadPath="$dir/p.so"; } >"$dir/preload.conf"
like "$(alice gpuckpt check -f "$dir/preload.conf")" "error +libraries.*p.so is not loaded: ERROR" \
	"a preload that the loader refuses"
plugins=$GPUCKPT_LAB/etc/plugstack.conf
cp "$plugins" "$dir/plugstack.conf"
: >"$plugins"
like "$(found error plugin -u alice)" "plugstack.conf does not load the plugin.*required" \
	"a plugstack.conf without the plugin"
cat "$dir/plugstack.conf" "$dir/plugstack.conf" >"$plugins"
like "$(found error plugin -u alice)" "plugstack.conf loads the plugin twice.*remove one" \
	"a plugstack.conf that has it twice"
echo "optional $dir/spank_gpuckpt.so" >"$plugins"
like "$(found error plugin -u alice)" "srun: .*$dir/spank_gpuckpt.so" "a plugin that is not there"
cp "$dir/plugstack.conf" "$plugins"
driver='mount -t tmpfs x /proc/driver && mkdir /proc/driver/nvidia &&
	echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  $0  Tue" \
		>/proc/driver/nvidia/version &&
	gpuckpt check | grep driver'
like "$(root unshare -m bash -c "$driver" 570.86.15)" "warning driver.*570.86.15.*tested with 580" \
	"a driver that is not tested"
like "$(root unshare -m bash -c "$driver" 580.95.05)" "ok +driver.*580.95.05" "a tested one"

# ---- heterogeneous jobs are not supported

het=$(alice srun -N1 -n1 --gpu-ckpt true : -N1 -n1 --gpu-ckpt true 2>&1)
like "$? $het" "^0 .*heterogeneous jobs are not carried.*without checkpoints" \
	"a heterogeneous job runs without checkpoints, with a message"
check_not "with require=yes it does not run" \
	alice srun -N1 -n1 --gpu-ckpt=require=yes true : -N1 -n1 true

# ---- gpuckptd's arguments and configuration

sbin=$(cat "$GPUCKPT_LAB/etc/prefix")/sbin
refuse_conf()
{
	printf '%s\n' "$1" >"$dir/gpuckpt.conf"
	local out status=0
	out=$(root timeout 10 "$sbin/gpuckptd" -D -f "$dir/gpuckpt.conf" 2>&1) || status=$?
	like "$status $out" "^[1-9] .*$2" "gpuckptd refuses '${1//$'\n'/; }' with $2"
	[[ $status -ne 124 ]] || diag "it ran"
}

own="StateDir=$dir/state"$'\n'"ClusterName=lab"
refuse_conf "$own"$'\n'"Bogus=1" "gpuckpt.conf:3.*Bogus"
refuse_conf "$own"$'\n\n# fine\n'"CoordinatorPort=many" "gpuckpt.conf:5.*CoordinatorPort"
refuse_conf "$own"$'\n'"NodePoll=0" "gpuckpt.conf:3.*NodePoll"
refuse_conf "$own"$'\n'"DefaultKeep=0" "gpuckpt.conf:3"
refuse_conf "$own"$'\n'"just words" "gpuckpt.conf:3"
status=0
out=$(root timeout 10 "$sbin/gpuckptd" -D -f "$dir/none.conf" 2>&1) || status=$?
like "$status $out" "^[1-9] .*none.conf" "gpuckptd refuses a file that is not there"
check_not "gpuckptd refuses an unknown option" root timeout 10 "$sbin/gpuckptd" --frobnicate
status=0
out=$(root timeout 10 "$sbin/gpuckptd" -D -f /etc/slurm/gpuckpt.conf 2>&1) || status=$?
like "$status $out" "^[1-9] .*" "a second coordinator does not start on the same state"
[[ $status -ne 124 ]] || report 1 "a second coordinator does not run"
check "the first coordinator still answers" alice gpuckpt status

# ---- gpuckptd -t

like "$(root "$sbin/gpuckptd" -t 2>&1) $?" "gpuckpt.conf is valid 0" \
	"gpuckptd -t takes the lab's configuration, while its gpuckptd runs"
printf '%s\n' Bogus=1 NodePoll=0 "StateDir=$dir/state/d" ListenAddress=256.0.0.1 \
	"EncryptionKeyFile=$dir/keys" CoordinatorUser=alice >"$dir/wrong.conf"
od -An -tx1 -N32 -v /dev/urandom | tr -d ' \n' >"$dir/keys"
chmod 644 "$dir/keys"
status=0
out=$(root "$sbin/gpuckptd" -t -f "$dir/wrong.conf" 2>&1) || status=$?
is "$status $(wc -l <<<"$out")" "1 6" "gpuckptd -t prints each of six problems in a line" ||
	diag "$out"
like "$out" ":1: .*Bogus.*:2: .*NodePoll" "among them each wrong line"
like "$out" "CoordinatorUser=alice" "... the user"
like "$out" "StateDir=$dir/state/d does not exist and cannot be made" "... StateDir"
like "$out" "EncryptionKeyFile=$dir/keys: .*mode 644" "... the mode of a file with keys"
like "$out" "ListenAddress=256.0.0.1" "... the address"
printf '%s\n' "StateDir=$dir/state" >"$dir/fine.conf"
check "a StateDir that can be made is fine" root "$sbin/gpuckptd" -t -f "$dir/fine.conf"
check_not "and it is not made" test -e "$dir/state"

finish
