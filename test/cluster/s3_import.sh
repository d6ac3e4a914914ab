#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image leaves the object store in a file and comes back into it, as another cluster's job too, and
# encrypted: it is listed, whole, restarted from, removed. What is not one, not its user's, or more than
# Quota is refused, and of an import that dies nothing is left.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
burn=$(program burn)
dir=$(work_dir)
args=(24 300 20 0.1 20)
burn_answers "${args[@]}" >"$dir/want"

# start KEYS: a job whose step is one and the same program, whatever the keys
start()
{
	rm -f "$dir"/rank* "$dir/enough"
	submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $burn ${args[*]} >rank\$SLURM_PROCID'
	END
}

# ends_well JOB NAME
ends_well()
{
	alice touch "$dir/enough"
	check "$2" wait_job "$1" COMPLETED 120
	check "rank 0 has the answer of an uninterrupted run" cmp "$dir/want" "$dir/rank0"
	check "rank 1 too" cmp "$dir/want" "$dir/rank1"
}

swept() { [[ $(alice gpuckpt import "$1" 2>&1) != *"still being removed"* ]]; }
removable() { alice gpuckpt remove --all "$1"; [[ -z $(commits "$1") ]]; }

# refused WORDS NAME CMD...
refused()
{
	local out words=$1 name=$2
	shift 2
	out=$("$@" 2>&1)
	[[ $? -eq 1 && $out = *"$words"* ]]
	report $? "$name" || diag "$out"
}

job=$(start compress=none)
check "a step" wait_ready "$job"
check "its first commit" alice gpuckpt create "$job"
check "its second, with objects of the first" alice gpuckpt create "$job"
check "export" alice gpuckpt export "$job:2" "$dir/image"
is "$(tar -tf "$dir/image" | cut -d/ -f4 | grep -c '^[12]-' | sed 's/^[1-9].*/some/')" some "of both"
ends_well "$job" "it ends"
damage_image "$dir/image" "$dir/bad"
refused "commit 2 already" "import: nothing is replaced" alice gpuckpt import "$dir/image"
refused "commit 2 already" "which is said before the file is read" alice gpuckpt import "$dir/bad"
check "all of it is removed" wait_for 30 removable "$job"
check "nothing is left in the store" nothing_of "$job"
check "gpuckptd sees to that as well" wait_for 60 swept "$dir/bad"

# ---- what is refused

head -c -2000 "$dir/image" >"$dir/cut"
cp /etc/passwd "$dir/wrong"
chown --reference="$dir" "$dir"/{cut,wrong}
refused "its end is missing" "one that is cut off" alice gpuckpt import "$dir/cut"
refused "not a whole image" "something else" alice gpuckpt import "$dir/wrong"
refused "damaged" "one that is damaged" alice gpuckpt import "$dir/bad"
cp "$dir/image" "$GPUCKPT_LAB/work/bob/image"
chown --reference="$GPUCKPT_LAB/work/bob" "$GPUCKPT_LAB/work/bob/image"
refused "is not yours" "bob, with a copy of his own" bob gpuckpt import "$GPUCKPT_LAB/work/bob/image"
rm "$GPUCKPT_LAB/work/bob/image"
conf_with Quota=10M
refused "Quota" "more than Quota" alice gpuckpt import "$dir/image"
conf_back
check "nothing of any is in the store" nothing_of "$job"

# ---- an import that dies

# begin_held JOB NAME: an import of which a PUT is held
begin_held()
{
	as_of elsewhere "$1" "$dir/image" "$dir/held"
	forget
	faults "3- put /$1/ hold"
	alice gpuckpt import "$dir/held" >"$dir/import" 2>&1 &
	importing=$!
	check "$2" wait_for 30 requests "^begin [0-9]+ put /.*/$1/.* hold$"
}

# landed JOB: some objects of it; quiet JOB: all that were on their way
landed() { [[ $(requests "^end [0-9]+ put .*/$1/.* 200$" | wc -l) -ge 2 ]]; }
quiet() { [[ $(requests "^begin [0-9]+ put .*/$1/" | wc -l) = $(requests "^end [0-9]+ put .*/$1/" | wc -l) ]]; }

begin_held 4001 "an import begins"
wait_for 30 landed 4001
check "what is there of it" wait_for 30 in_store 4001
object=$(requests "^end [0-9]+ put .*/4001/.* 200$" | awk 'NR == 1 { print $4 }')
root pkill -KILL -u alice -x gpuckpt
wait "$importing"
faults
check "its process is killed: soon nothing is left" wait_for 60 nothing_of 4001
is "$(request PUT "$object" -T "$dir/want")" 200 "what was on its way lands then"
check "and does not stay either" wait_for 60 nothing_of 4001
begin_held 4002 "another"
root pkill -TERM -u alice -x gpuckpt
faults
wait "$importing"
report $((! $?)) "which is interrupted, says so" || cat "$dir/import"
like "$(cat "$dir/import")" "interrupted" "in words"
check "nothing is left" wait_for 60 nothing_of 4002
begin_held 4003 "another"
"$cluster" kill gpuckptd
faults
check "what was on its way lands" wait_for 8 quiet 4003
"$cluster" start gpuckptd
wait "$importing"
report $((! $?)) "whose coordinator dies, fails" || cat "$dir/import"
diag "it says: $(cat "$dir/import")"
check "nothing is left" wait_for 60 nothing_of 4003
is "$(commits 4001)$(commits 4002)$(commits 4003)" "" "none of them is listed"

# ---- what is imported

check "import" alice gpuckpt import "$dir/image"
is "$(commits "$job" | xargs)" 2 "it is listed"
is "$(alice gpuckpt show "$job.0" 2 --json | jq -r .reason)" import "as an import"
check "verify" alice gpuckpt verify "$job"
next=$(start "restart=$job:2")
check "another job goes on from it" wait_ready "$next" 60
check "as the coordinator says" grep -q "step $next.0 is restored from commit 2 of step $job.0" \
	"$GPUCKPT_LAB/log/gpuckptd.out"
refused "runs from commit 2 of" "it is not removed while that needs it" alice gpuckpt remove "$job.0" 2
ends_well "$next" "to the end"
check "then it is removed" wait_for 30 removable "$job"
check "all of it" nothing_of "$job"

as_of elsewhere 4711 "$dir/image" "$dir/other"
check "the image of another cluster's job" alice gpuckpt import "$dir/other"
is "$(commits 4711 | xargs)" 2 "is listed"
"$cluster" kill gpuckptd
"$cluster" start gpuckptd
check "it is whole for a coordinator that was started anew" alice gpuckpt verify 4711
next=$(start restart=4711:2)
check "a job goes on from it" wait_ready "$next" 60
ends_well "$next" "to the end"
check "it is removed" wait_for 30 removable 4711
check "all of it" nothing_of 4711

# ---- encrypted

job=$(start encrypt=yes)
check "an encrypted step" wait_ready "$job"
check "its commit" alice gpuckpt create "$job"
rm "$dir/image"
check "export" alice gpuckpt export "$job:1" "$dir/image"
ends_well "$job" "it ends"
check "it is removed" wait_for 30 removable "$job"
check "import" wait_for 60 alice gpuckpt import "$dir/image"
check "it is whole" alice gpuckpt verify "$job"
next=$(start "encrypt=yes,restart=$job:1")
check "a job goes on from it" wait_ready "$next" 60
ends_well "$next" "to the end"
as_of elsewhere 4712 "$dir/image" "$dir/other"
refused "" "as another cluster's it is not taken" alice gpuckpt import "$dir/other"
check "nothing of that is there" nothing_of 4712
finish
