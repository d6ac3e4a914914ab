#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/bench/s3.sh [MIB]: a first checkpoint of one rank of MIB (512) into the lab's object store,
# without TLS and the front, compared with as many parallel curl PUTs of objects of the same sizes
# from the same node; in turns, medians of three. The server has one core and the nodes another, as
# on a site the server is another machine. Then a second checkpoint with 5 percent changed
# (changed.sh). Prints `name value unit`; stderr has the goals. Needs GPUCKPT_PREFIX, or a lab with
# --s3 in GPUCKPT_LAB.
export GPUCKPT_LAB_OPTIONS=--s3
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
mib=${1-512}
parallel=8 # as storage/s3/s3.c
s3=$GPUCKPT_LAB/s3
endpoint=$(<"$s3/direct")
dir=$(work_dir)
burn=$(program burn)
# shellcheck source=changed.sh
. "$bench_dir/changed.sh"

# server_is URL: makes gpuckptd use this server
server_is()
{
	sed -i "s|^S3Endpoint=.*|S3Endpoint=$1|" "$GPUCKPT_LAB/etc/gpuckpt.conf"
	"$cluster" kill gpuckptd
	"$cluster" start gpuckptd
}

# on_cores LIST COMMAND-LINE: binds the lab's processes with this command line, their threads and
# the processes that they start later
on_cores()
{
	local pid
	for pid in $(root pgrep -f "$2"); do
		root taskset -acp "$1" "$pid" >/dev/null
	done
}

# Restores a lab that existed before.
restore_lab()
{
	on_cores "0-$(($(nproc --all) - 1))" "$s3/server/"
	on_cores "0-$(($(nproc --all) - 1))" "slurmd -D"
	server_is "$(<"$s3/endpoint")"
}
[[ -n ${lab_made-} ]] || trap restore_lab EXIT

server_is "$endpoint"
on_cores 0 "$s3/server/"
on_cores 1 "slurmd -D"

presign() { "$top/contrib/cluster.d/presign" "$s3/key" "$endpoint" "$@"; }

# The objects and manifests of job $1.
objects()
{
	root curl -s "$(presign GET "/gpuckpt?list-type=2&prefix=lab/lab/")" |
		grep -o '<Contents>.*' |
		sed 's/<Contents>/\n/g' | grep -E "/$1/0/"
}

# sizes JOB: the sizes of its objects
sizes() { objects "$1" | sed 's/.*<Size>\([0-9]*\).*/\1/'; }

ours()
{
	job=$(submit "$dir" -n1 <<<"#!/bin/bash
		srun --gpu-ckpt $burn $mib 100000 1000 0")
	bench_ready "$job"
	on_cores 1 gpuckpt-agent # which uses all cores by default
	sleep $((mib / 400 + 1))
	alice gpuckpt create "$job" --json | jq -r '.steps[0] | .stored / 1048576 / .write_s'
	root scancel "$job"
}

# Puts objects of the same sizes, of noise, by curl from node 1.
theirs()
{
	local size i=0 begin total=0
	: >"$dir/config"
	for size in $(sizes "$job"); do
		i=$((i + 1))
		head -c "$size" /dev/urandom >"$dir/object.$i"
		printf 'upload-file = "%s"\nurl = "%s"\noutput = "/dev/null"\n' "$dir/object.$i" \
			"$(presign PUT "/gpuckpt/curl/$job/$i")" >>"$dir/config"
		total=$((total + size))
	done
	begin=$EPOCHREALTIME
	root -n 1 taskset -c 1 curl -S --no-progress-meter --fail --parallel \
		--parallel-max $parallel \
		--config "$dir/config" >&2 || give_up "curl failed"
	calc "$total / 1048576 / ($EPOCHREALTIME - $begin)"
	echo
	rm "$dir"/object.*
}

for _ in 1 2 3; do
	ours >>"$dir/ours"
	theirs >>"$dir/theirs"
done
ours=$(median <"$dir/ours") theirs=$(median <"$dir/theirs")
figure s3_write "$ours" MiB/s
figure s3_curl "$theirs" MiB/s
figure s3_write_over_curl "$(calc "$ours / $theirs")" ratio
at_least "write over parallel curl" "$(calc "$ours / $theirs")" 0.8
changed s3_changed "" "$mib" 1 objects
[[ $failures -eq 0 ]]
