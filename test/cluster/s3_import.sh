#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image is exported from the object store to a file and imported again, also as another cluster's
# job, and encrypted: it is listed, whole, can be restarted from and removed. A file that is no
# image, another user's image, and one above Quota are refused. An import that dies leaves nothing.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
burn=$(program burn)
dir=$(work_dir)
args=(24 300 20 0.1 20)
burn_answers "${args[@]}" >"$dir/want"

# start OPTIONS: a job of two ranks with --gpu-ckpt=OPTIONS; the step has the same fingerprint each
# time
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

# refused WORDS NAME CMD...: CMD fails with status 1, and its message has WORDS
refused()
{
	local out words=$1 name=$2
	shift 2
	out=$("$@" 2>&1)
	is $? 1 "$name: status 1" || diag "$out"
	[[ ! $words ]] || like "$out" "$words" "$name: the message has \"$words\""
}

job=$(start compress=none)
check "the step runs under gpuckpt" wait_ready "$job"
check "create" alice gpuckpt create "$job"
check "create again, with objects of the first" alice gpuckpt create "$job"
check "export" alice gpuckpt export "$job:2" "$dir/image"
is "$(tar -tf "$dir/image" | cut -d/ -f4 | grep -c '^[12]-' | sed 's/^[1-9].*/some/')" some \
	"the image has objects of a commit"
ends_well "$job" "the job ends"
damage_image "$dir/image" "$dir/bad"
refused "commit 2 already" "import of a commit that the store has is refused" \
	alice gpuckpt import "$dir/image"
refused "commit 2 already" "import refuses it before it reads the file" \
	alice gpuckpt import "$dir/bad"
check "remove --all" wait_for 30 removable "$job"
check "nothing of it is left in the store" nothing_of "$job"
check "gpuckptd has finished the removal, too" wait_for 60 swept "$dir/bad"

# ---- what is refused

head -c -2000 "$dir/image" >"$dir/cut"
cp /etc/passwd "$dir/wrong"
chown --reference="$dir" "$dir"/{cut,wrong}
refused "its end is missing" "import of a file that is cut off" alice gpuckpt import "$dir/cut"
refused "not a whole image" "import of another file" alice gpuckpt import "$dir/wrong"
refused "damaged" "import of a damaged image" alice gpuckpt import "$dir/bad"
cp "$dir/image" "$GPUCKPT_LAB/work/bob/image"
chown --reference="$GPUCKPT_LAB/work/bob" "$GPUCKPT_LAB/work/bob/image"
refused "is not yours" "import by bob, who has a copy of the file" \
	bob gpuckpt import "$GPUCKPT_LAB/work/bob/image"
rm "$GPUCKPT_LAB/work/bob/image"
conf_with Quota=10M
refused "Quota" "import above Quota" alice gpuckpt import "$dir/image"
conf_back
check "nothing of them is in the store" nothing_of "$job"

# ---- an import that dies

# begin_held JOB NAME: start an import of which a PUT is held
begin_held()
{
	as_of elsewhere "$1" "$dir/image" "$dir/held"
	forget
	faults "3- put /$1/ hold"
	alice gpuckpt import "$dir/held" >"$dir/import" 2>&1 &
	importing=$!
	check "$2" wait_for 30 requests "^begin [0-9]+ put /.*/$1/.* hold$"
}

# landed JOB: the store has some objects of it; quiet JOB: no put of it is under way
landed() { [[ $(requests "^end [0-9]+ put .*/$1/.* 200$" | wc -l) -ge 2 ]]; }
puts() { requests "^$1 [0-9]+ put .*/$2/" | wc -l; }
quiet() { [[ $(puts begin "$1") = $(puts end "$1") ]]; }

begin_held 4001 "an import begins"
wait_for 30 landed 4001
check "the store has a part of it" wait_for 30 in_store 4001
object=$(requests "^end [0-9]+ put .*/4001/.* 200$" | awk 'NR == 1 { print $4 }')
root pkill -KILL -u alice -x gpuckpt
wait "$importing"
faults
check "its process is killed: soon nothing is left" wait_for 60 nothing_of 4001
is "$(request PUT "$object" -T "$dir/want")" 200 "a late put arrives after that"
check "its object is removed, too" wait_for 60 nothing_of 4001
begin_held 4002 "another import begins"
root pkill -TERM -u alice -x gpuckpt
faults
wait "$importing"
report $((! $?)) "it is interrupted, and fails" || cat "$dir/import"
like "$(cat "$dir/import")" "interrupted" "it prints that it was interrupted"
check "nothing is left" wait_for 60 nothing_of 4002
begin_held 4003 "a third import begins"
"$cluster" kill gpuckptd
faults
check "gpuckptd is killed, and the puts under way end" wait_for 8 quiet 4003
"$cluster" start gpuckptd
wait "$importing"
report $((! $?)) "the import fails" || cat "$dir/import"
diag "its message: $(cat "$dir/import")"
check "nothing is left" wait_for 60 nothing_of 4003
is "$(commits 4001)$(commits 4002)$(commits 4003)" "" "none of them is listed"

# ---- imports that succeed

check "import" alice gpuckpt import "$dir/image"
is "$(commits "$job" | xargs)" 2 "the commit is listed"
is "$(alice gpuckpt show "$job.0" 2 --json | jq -r '.commits[0].reason')" import \
	"its reason is import"
check "verify" alice gpuckpt verify "$job"
next=$(start "restart=$job:2")
check "another job restarts from it" wait_ready "$next" 60
check "the coordinator's log names the commit" grep -q \
	"step $next.0 is restored from commit 2 of step $job.0" "$GPUCKPT_LAB/log/gpuckptd.out"
refused "runs from commit 2 of" "it is not removed while that job needs it" \
	alice gpuckpt remove "$job.0" 2
ends_well "$next" "it ends"
check "after that it is removed" wait_for 30 removable "$job"
check "nothing of it is left" nothing_of "$job"

as_of elsewhere 4711 "$dir/image" "$dir/other"
check "the image of another cluster's job" alice gpuckpt import "$dir/other"
is "$(commits 4711 | xargs)" 2 "its commit is listed"
"$cluster" kill gpuckptd
"$cluster" start gpuckptd
check "it is whole for a restarted coordinator, too" alice gpuckpt verify 4711
next=$(start restart=4711:2)
check "a job restarts from it" wait_ready "$next" 60
ends_well "$next" "it ends"
check "it is removed" wait_for 30 removable 4711
check "nothing of it is left" nothing_of 4711

# ---- encrypted

job=$(start encrypt=yes)
check "an encrypted step runs under gpuckpt" wait_ready "$job"
check "create, encrypted" alice gpuckpt create "$job"
rm "$dir/image"
check "export" alice gpuckpt export "$job:1" "$dir/image"
ends_well "$job" "the job ends"
check "it is removed" wait_for 30 removable "$job"
check "import" wait_for 60 alice gpuckpt import "$dir/image"
check "it is whole" alice gpuckpt verify "$job"
next=$(start "encrypt=yes,restart=$job:1")
check "a job restarts from it" wait_ready "$next" 60
ends_well "$next" "it ends"
as_of elsewhere 4712 "$dir/image" "$dir/other"
refused "" "import as another cluster's image is refused" alice gpuckpt import "$dir/other"
check "nothing of it is in the store" nothing_of 4712
finish
