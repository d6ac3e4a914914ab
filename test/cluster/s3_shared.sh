#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Objects that ranks have in common in an object store (the text of a program whose file has changed
# since) are fetched once for all ranks of a node that come back, and once by verify. If restorers
# are killed while one of them fetches such an object, the restart is repeated and succeeds.
export GPUCKPT_LAB_OPTIONS=${GPUCKPT_LAB_OPTIONS:---s3}
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
burn=$(program burn)
dir=$(work_dir)
burn_answers 8 20000 0 >"$dir/want"
cp "$burn" "$dir/burn"

# start OPTIONS: four ranks on a node, with --gpu-ckpt=OPTIONS
start()
{
	submit "$dir" -N1 -n4 <<-END
		#!/bin/bash
		srun --gpu-ckpt=$1 bash -c 'exec $dir/burn 8 20000 50 >rank\$SLURM_PROCID'
	END
}

# learn JOB: sets $pieces: the objects of its first commit that ranks may have in common, and of how
# many pieces of 4 MiB each consists
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

# gets OBJECT: requests for it since forget; fetched: for all objects of $pieces; fetched_again:
# objects with more requests than pieces
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
		[[ $(gets "$name") -le ${pieces[$name]} ]] ||
			echo "$name: $(gets "$name") of ${pieces[$name]}"
	done
}

# goes_on NAME: the ranks print more lines, and all lines are those of an uninterrupted run
goes_on()
{
	local r lines
	for r in 0 1 2 3; do
		lines=$(($(wc -l <"$dir/rank$r") + 1))
		check "$1: rank $r prints more" wait_for 30 has_lines "$r" "$lines"
		check "$1: rank $r prints what an uninterrupted run prints" \
			cmp <(head -n "$lines" "$dir/rank$r") <(head -n "$lines" "$dir/want")
	done
}
has_lines() { [[ $(wc -l <"$dir/rank$1") -ge $2 ]]; }

job=$(start keep=2)
check "four ranks on a node" wait_ready "$job"
check "create" alice gpuckpt create "$job"
learn "$job"
is "${#pieces[@]}" 1 "they have one object in common"
is "${pieces[*]}" 1 "it is one piece"
forget
check "verify" alice gpuckpt verify "$job"
is "$(fetched)" 1 "verify reads it once"
end_job "$job"

# ---- all come back

"${CC-gcc}" -O1 -o "$dir/burn.new" "$top/test/programs/burn.c" -pthread -lm
mv "$dir/burn.new" "$dir/burn"
forget
next=$(start "restart=$job:1")
check "another job restarts from it" wait_ready "$next" 60
goes_on "another job"
is "$(fetched)" 1 "the common object came to the node once"
end_job "$next"

# ---- the restorer that fetches dies

forget
common=${!pieces[*]}
faults "1 get /$common hold"
next=$(start "restart=$job:1")
check "a restorer's request for a common object hangs" \
	wait_for 60 requests "^begin [0-9]+ get .*/$common .* hold$"
# All restorers have the same name: kill all of them.
check "the restorers are killed" root pkill -KILL -u alice gpuckpt-worker
faults
check "the restart is repeated" wait_for 120 job_restarted "$next" 1
check "it succeeds with the same images" wait_ready "$next" 60
goes_on "the second restart"
end_job "$next"

# ---- many pieces, but no more than a node caches

MIB=48
install -m 755 "$top/test/programs/mapped.py" "$dir"

# map RANKS OPTIONS: a job whose ranks map a file
map()
{
	submit "$dir" -N1 -n"$1" <<-END
		#!/bin/bash
		srun --gpu-ckpt=$2 \
			bash -c 'exec /usr/bin/python3 mapped.py file enough >sum\$SLURM_PROCID'
	END
}

# come_back RANKS: a job with a mapped file; the file changes, and the job restarts
come_back()
{
	local file
	rm -f "$dir"/{enough,sum*}
	head -c "${MIB}M" /dev/urandom >"$dir/file"
	job=$(map "$1" keep=2)
	check "$1 map a file: the step runs under gpuckpt" wait_ready "$job"
	for file in $(seq -f "$dir/sum%g" 0 $(($1 - 1))); do
		check "$1 map a file: $(basename "$file")" wait_for 60 have_said "$file"
	done
	check "$1 map a file: create" alice gpuckpt create "$job"
	learn "$job"
	end_job "$job"
	head -c "${MIB}M" /dev/urandom >"$dir/new"
	mv "$dir/new" "$dir/file"
	forget
	next=$(map "$1" "restart=$job:1")
	check "$1 map a file that has changed: they go on" wait_ready "$next" 60
	is "$(fetched_again)" "" "$1 map a file that has changed: no piece is fetched twice"
	check "$1 map a file that has changed: all pieces are fetched" \
		test "$(fetched)" -ge $((MIB / 4))
	diag "$(fetched) of ${pieces[*]}"
	alice touch "$dir/enough"
	check "$1 map a file that has changed: the job ends" wait_job "$next" COMPLETED 60
	for file in "$dir"/sum*; do
		is "$(uniq -c "$file" | awk '{ print $1 }')" 2 \
			"$(basename "$file"): the mapping has the old contents"
	done
}

come_back 4
come_back 1
finish
