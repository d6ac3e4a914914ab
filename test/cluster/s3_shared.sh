#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What ranks have in common in an object store (the text of a program that is another by now) is fetched
# once by all ranks of a node that come back, and once by verify; and where restorers are killed while one
# of them fetches it, the restart is made again and works.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
burn=$(program burn)
dir=$(work_dir)
burn_answers 8 20000 0 >"$dir/want"
cp "$burn" "$dir/burn"

# start KEYS: four ranks on a node
start()
{
	submit "$dir" -N1 -n4 <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $dir/burn 8 20000 50 >rank\$SLURM_PROCID'
	END
}

# learn JOB: the objects that any rank of its first commit may have in common with others, and how many pieces
# of 4 MiB each of them has
declare -A pieces
learn()
{
	local manifest name size
	pieces=()
	for manifest in $(s3_has "/$1/0/1-.*/rank-[0-9]+\.json$"); do
		request GET "/gpuckpt/$manifest" >/dev/null
		for name in $(jq -r '.store | .objects[.shared[]]' "$body"); do
			request HEAD "/gpuckpt/${manifest%/*/*}/$name" -I >/dev/null
			size=$(tr -d '\r' <"$body" | sed -n 's/^content-length: //Ip')
			pieces[$name]=$(((size + (4 << 20) - 1) / (4 << 20)))
		done
	done
}

# Since forget: requests for these objects, and those that were more than an object has pieces.
gets() { requests "^begin [0-9]+ get .*/$1 " | wc -l; }
fetched()
{
	local name all=0
	for name in "${!pieces[@]}"; do
		all=$((all + $(gets "$name")))
	done
	echo $all
}
fetched_again()
{
	local name
	for name in "${!pieces[@]}"; do
		[[ $(gets "$name") -le ${pieces[$name]} ]] || echo "$name: $(gets "$name") of ${pieces[$name]}"
	done
}

# goes_on: the ranks' lines are those of an uninterrupted run, and become more
goes_on()
{
	local r lines
	for r in 0 1 2 3; do
		lines=$(($(wc -l <"$dir/rank$r") + 1))
		wait_for 30 has_lines "$r" "$lines" &&
			cmp <(head -n "$lines" "$dir/rank$r") <(head -n "$lines" "$dir/want") || return
	done
}
has_lines() { [[ $(wc -l <"$dir/rank$1") -ge $2 ]]; }

job=$(start keep=2)
check "four ranks on a node" wait_ready "$job"
check "a checkpoint of them" alice gpuckpt create "$job"
learn "$job"
is "${#pieces[@]} ${pieces[*]}" "1 1" "they have an object in common"
forget
check "verify" alice gpuckpt verify "$job"
is "$(fetched)" 1 "reads it once"
end_job "$job"

# ---- all come back

"${CC-gcc}" -O1 -o "$dir/burn.new" "$top/test/programs/burn.c" -pthread -lm
mv "$dir/burn.new" "$dir/burn"
forget
next=$(start "restart=$job:1")
check "another job goes on" wait_ready "$next" 60
check "where they were" goes_on
is "$(fetched)" 1 "the common object came to the node once"
end_job "$next"

# ---- who fetches dies

forget
common=${!pieces[*]}
faults "1 get /$common hold"
next=$(start "restart=$job:1")
check "a restorer's request for a common object hangs" \
	wait_for 60 requests "^begin [0-9]+ get .*/$common .* hold$"
# Which of them it is has no name: all of them have the same.
check "the restorers are killed" root pkill -KILL -u alice gpuckpt-worker
faults
check "the restart is made again" wait_for 120 job_restarted "$next" 1
check "from the same images" wait_ready "$next" 60
check "where they were" goes_on
end_job "$next"

# ---- many pieces, no more than a node keeps

MIB=48
install -m 755 "$top/test/programs/mapped.py" "$dir"

# map RANKS KEYS
map()
{
	submit "$dir" -N1 -n"$1" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$2 bash -c 'exec /usr/bin/python3 mapped.py file enough >sum\$SLURM_PROCID'
	END
}

# come_back RANKS: to a file that they have mapped, and that is another
come_back()
{
	local file
	rm -f "$dir"/{enough,sum*}
	head -c "${MIB}M" /dev/urandom >"$dir/file"
	job=$(map "$1" keep=2)
	check "$1 map a file" wait_ready "$job"
	for file in $(seq -f "$dir/sum%g" 0 $(($1 - 1))); do
		check "$1 map a file: $(basename "$file")" wait_for 60 have_said "$file"
	done
	check "$1 map a file: a checkpoint" alice gpuckpt create "$job"
	learn "$job"
	end_job "$job"
	head -c "${MIB}M" /dev/urandom >"$dir/new"
	mv "$dir/new" "$dir/file"
	forget
	next=$(map "$1" "restart=$job:1")
	check "$1 map a file that is another: they go on" wait_ready "$next" 60
	is "$(fetched_again)" "" "$1 map a file that is another: no piece came to the node twice"
	check "$1 map a file that is another: all came" test "$(fetched)" -ge $((MIB / 4))
	diag "$(fetched) of ${pieces[*]}"
	alice touch "$dir/enough"
	check "$1 map a file that is another: the job ends" wait_job "$next" COMPLETED 60
	for file in "$dir"/sum*; do
		is "$(uniq -c "$file" | awk '{ print $1 }')" 2 "$(basename "$file"): the file as it was"
	done
}

come_back 4
come_back 1
finish
