#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Another user tries every verb; connections that send no valid frame; root's rights. Before that he
# takes the names of the jobs to come in the store, and carol, who owns a directory where alice's
# job writes, puts a link to another file of alice's there.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
log=$GPUCKPT_LAB/log/gpuckptd.out
burn_answers 8 400 50 >"$dir/want"
share=$dir/share
root install -d -o carol -m 1777 "$share"
alice mkdir "$share/x" "$dir/own"
# shellcheck disable=SC2016 # expanded there
alice bash -c 'echo precious >"$0"' "$dir/own/rank0"
last=$(alice sbatch --parsable -N1 -n1 --wrap true)
names=("$GPUCKPT_LAB/store/lab/"{$((last + 1)),$((last + 1))-$(alice id -u)})
bob mkdir -m 777 "${names[0]}"
bob ln -s /tmp "${names[1]}"
conf_with RestartFailures=1
job=$(submit "$dir" -N1 -n1 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn 8 400 50 >share/x/rank0'
END
)
is "$job" $((last + 1)) "bob has taken the names of alice's next job in the store"
check "alice's step runs under gpuckpt" wait_ready "$job"
check "alice takes a checkpoint" alice gpuckpt create "$job"
like "$(alice gpuckpt able -v "$job")" "${names[0]} belongs to bob" \
	"she is told what bob has taken"

stranger=$(bob gpuckpt able 4000000 2>&1)
for verb in able create vacate requeue disable enable show status verify remove; do
	[[ $verb =~ show|remove ]] && seq=(1) || seq=()
	out=$(bob gpuckpt $verb "$job.0" "${seq[@]}" 2>&1)
	is "$?" 1 "bob: $verb is refused"
	[[ $verb != able ]] || is "${out//$job.0/4000000}" "$stranger" \
		"bob: able gives the answer of a job that does not exist"
done
unlike "$(bob gpuckpt list --json)" "\"job\": ?$job" "bob: list does not show it"
unlike "$(bob gpuckpt status --json)" "\"job\": ?$job" "bob: status does not show it"
store=$(alice gpuckpt list "$job" --json | jq -r '.steps[0].store')
check_not "bob cannot read the store" bob ls "${store#file:}/lab/$(basename "${names[1]}").2"
is "$(stat -c '%a %u' "${names[1]}.2")" "700 $(alice id -u)" \
	"only alice may use the job's directory in the store"
out=$(bob timeout 60 srun -n1 --gpu-ckpt=restart="$job":1 id 2>&1)
report $((! $?)) "bob cannot restart from alice's commit" || diag "$out"

check "root: list shows it" grep -q "$job" <(root gpuckpt list)
check "root: create" root gpuckpt create "$job"
check "root: verify" root gpuckpt verify "$job"
check "root: export" root gpuckpt export "$job:1" "$dir/image"
check "root: remove" root gpuckpt remove "$job.0" 1

# Frames that are too long, or have no credential, and a connection without a frame.
for bytes in '\xff\xff\xff\xff' '\x00\x00\x00\x05hello' 'GET / HTTP/1.0\r\n\r\n' ''; do
	# shellcheck disable=SC2016 # expanded inside the lab
	bob timeout 5 bash -c 'exec 3<>/dev/tcp/ctl/6821 && printf "$1" >&3 &&
		head -c 1000 <&3 >/dev/null' _ "$bytes" 2>/dev/null
done
check "the coordinator answers after invalid frames" alice gpuckpt status "$job"

# While the job waits for its nodes again.
check "alice requeues the job" alice gpuckpt requeue "$job"
# shellcheck disable=SC2016 # expanded there
root -u carol bash -c 'cd "$0" && mv x y && ln -s ../own x' "$share"
soon_held() { job_restarted "$job" 1; [[ $(query "$job" .state) = held ]]; }
check "the restart is refused" wait_for 60 soon_held
like "$(query "$job" .last_error)" "$share/x/rank0 .* symbolic link" "the reason names the file"
is "$(alice cat "$dir/own/rank0")" precious "alice's other file is as it was"
# shellcheck disable=SC2016 # expanded there
root -u carol bash -c 'cd "$0" && rm x && mv y x' "$share"
alice scontrol release "$job"

alice touch "$dir/enough"
check "alice's job ends" wait_job "$job" COMPLETED 60
check "alice's answer is right" cmp "$dir/want" "$share/x/rank0"

# gpuckptd looks for what its journal lacks. Root could read this.
commit=$(find "${names[1]}.2" -name 'commit-*.json' | head -n 1)
chmod 000 "$commit"
"$cluster" kill gpuckptd
: >"$GPUCKPT_LAB/gpuckptd/journal"
"$cluster" start gpuckptd
is_left() { grep -q "step $job.0: commit .* is left: .*Permission denied" "$log"; }
check "gpuckptd reads alice's directories with her rights alone" wait_for 30 is_left
root rm -rf "${names[@]}"
finish
