#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Wrong options, configuration and arguments are refused by name, before anything happens.
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
refuse_option keep=2,,bogus=3 bogus
check_not "nothing was launched by a refused srun" test -e "$dir/launched"
check_not "sbatch refuses a wrong key" alice sbatch --gpu-ckpt=bogus=1 --wrap true
check_not "salloc refuses a wrong key" alice salloc -n1 --gpu-ckpt=bogus=1 true
good=interval=1h30m,keep=3,stage=/tmp,compress=zstd:3,timeout=90s,hold=2s,restart-wait=1m
good+=,mpi=none,cuda=none,files=64M
check "srun takes every key with a good value" timeout 60 "$cluster" exec -u alice \
	srun -n1 --gpu-ckpt=$good,restart=auto,skip-done=no,require=yes,cpus=2,quiet=yes true
check "srun --help has the option" grep -q gpu-ckpt <(alice srun --help)

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

finish
