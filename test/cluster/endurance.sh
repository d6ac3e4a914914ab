#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# endurance.sh [CHECKPOINTS [RESTARTS]]: so many checkpoints in a row (1,000), then so many restarts
# in one lineage (1,000), of a C program, of python3 and of MPI ranks on two nodes, side by side.
# Nothing may grow with their number: memory, descriptors, mappings and threads of ranks, agents,
# slurmstepd and gpuckptd, and files. Each round is a `gpuckpt create` or a `gpuckpt requeue`.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v mpicc >/dev/null || { echo "1..0 # SKIP no mpicc"; exit 0; }

checkpoints=${1-1000} restarts=${2-1000}
warm=10 # rounds before the first measurement: caches fill, the programs reach a steady state
block=100 # rounds between measurements
dir=$(work_dir)
burn=$(program burn)
ring=$(CC=mpicc program ring)
burn_args=(16 $((restarts * 60 + 2000)) 50)
burn_answers "${burn_args[@]}" >"$dir/burn.want"
/usr/bin/python3 "$top/test/programs/walk.py" 200 "$dir/walk.want"
install -m 644 "$top/test/programs/walk.py" "$dir"

# ---- the jobs

declare -A jobs
jobs[C]=$(submit "$dir" -n1 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt bash -c 'exec $burn ${burn_args[*]} >burn.out'
END
)
jobs[python]=$(submit "$dir" -n1 --export="ALL,WALK_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt /usr/bin/python3 walk.py 200 walk.out
END
)
jobs[MPI]=$(submit "$dir" -N2 -n2 --export="ALL,RING_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	export OMPI_MCA_mpi_yield_when_idle=1
	srun --mpi=pmix --gpu-ckpt $ring 100000000 20000 >ring.out
END
)

# ---- what is measured

# measure JOB: lines "PART MEASURE VALUE"; of several processes the largest value. The ranks of a
# step are the children of its slurmstepd.
measure()
{
	root python3 - "$1" <<-'END'
	import collections, glob, os, re, sys
	job = sys.argv[1]
	lab = os.environ["GPUCKPT_LAB"]
	values = collections.Counter()

	def read(path):
	    with open(path, "rb") as f:
	        return f.read().decode(errors="replace")

	def part_of(pid, steps):
	    name = read(f"/proc/{pid}/comm").strip()
	    if name == "gpuckptd":
	        return name
	    if name == "gpuckpt-agent":
	        mine = f"\0GPUCKPT_JOB={job}\0" in "\0" + read(f"/proc/{pid}/environ")
	        return "agent" if mine else None
	    if pid in steps:
	        return "slurmstepd"
	    parent = re.search(r"PPid:\t(\d+)", read(f"/proc/{pid}/status"))[1]
	    return "rank" if parent in steps else None

	def look(part, pid):
	    status = dict(re.findall(r"(\w+):\t *(\d+)", read(f"/proc/{pid}/status")))
	    # Of a file's pages as many are resident as happen to be, mostly after a restart.
	    return {"KiB": int(status["RssAnon"]) + int(status["RssShmem"]),
	            "threads": int(status["Threads"]),
	            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
	            "mappings": read(f"/proc/{pid}/maps").count("\n")}

	pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
	steps = set()
	for look_for in "steps", "parts":
	    for pid in pids:
	        try:
	            if look_for == "steps":
	                if read(f"/proc/{pid}/cmdline").startswith(f"slurmstepd: [{job}.0]"):
	                    steps.add(pid)
	            elif part := part_of(pid, steps):
	                for what, value in look(part, pid).items():
	                    values[part, what] = max(values[part, what], value)
	        except (OSError, KeyError, TypeError):
	            pass  # it has ended

	places = {"store": f"{lab}/store/lab/{job}", "spool": f"{lab}/spool",
	          "StateDir": f"{lab}/gpuckptd", "tmp": f"{lab}/tmp"}
	for pid in steps:
	    places[f"shm{pid}"] = f"/proc/{pid}/root/dev/shm"
	for place, pattern in places.items():
	    part = re.sub(r"\d", "", place)
	    for root in glob.glob(pattern):
	        for folder, _, files in os.walk(root):
	            values[part, "files"] += len(files)
	for (part, what), value in sorted(values.items()):
	    print(part, what, value)
	END
}

# look WHEN: measures all jobs three times, while nothing else happens, in place of an earlier look
look()
{
	local kind
	for kind in "${!jobs[@]}"; do
		touch "$dir/$kind.measured"
		sed -i "/ $1\$/d" "$dir/$kind.measured"
	done
	for kind in "${!jobs[@]}" "${!jobs[@]}" "${!jobs[@]}"; do
		measure "${jobs[$kind]}" | sed "s/\$/ $1/" >>"$dir/$kind.measured"
	done
}

# growth KIND ROUNDS: of each part and measure a line with the least value first and last, and
# GROWN. The number of objects that a commit is in varies; so does what malloc() maps. Slurm's PMIx
# server, in slurmstepd, grows with each fence (doc/limits.md).
growth()
{
	awk -v fences="$([[ $1 != MPI ]] || echo "$2")" '{
		k = $1 " " $2
		names[k]
		if (!((k, $4) in least) || $3 < least[k, $4])
			least[k, $4] = $3
	}
	END {
		for (k in names) {
			allowed = k ~ /KiB/ ? 512 : k ~ /files|mappings/ ? 8 : 0
			if (k == "slurmstepd KiB")
				allowed += 8 * fences
			grown = least[k, "last"] > least[k, "first"] + allowed
			print k, least[k, "first"], least[k, "last"], grown ? "GROWN" : "-"
		}
	}' "$dir/$1.measured" | sort | column -t
}

# ---- the rounds

# In the lab.
checkpoint_once() { gpuckpt create "$1"; }

# A job that waits need not wait as long as Slurm says (job_restarted in lib.sh).
restart_once()
{
	local job restarts
	job=$(scontrol show job "$1")
	[[ $job =~ Restarts=([0-9]+) ]] || return
	restarts=$((BASH_REMATCH[1] + 1))
	gpuckpt requeue "$1" || return
	until [[ $job =~ JobState=(PENDING|RUNNING).*Restarts=$restarts ]]; do
		sleep 0.3
		job=$(scontrol show job "$1")
	done
	[[ $job = *JobState=RUNNING* ]] || scontrol update jobid="$1" starttime=now+1
	until gpuckpt able "$1"; do
		sleep 0.3
	done
}

# rounds WAY N: of all jobs at once. They run in one shell each in the lab: to enter it costs more
# than a checkpoint.
rounds()
{
	local kind pids=()
	for kind in "${!jobs[@]}"; do
		# shellcheck disable=SC2016 # for the shell in the lab
		alice bash -c "$(declare -f "${1}_once")"'
			for ((i = 1; i <= $1; i++)); do
				'"${1}_once"' "$2" || { echo "failed in round $i"; exit 1; }
			done' _ "$2" "${jobs[$kind]}" >"$dir/$1.$kind.log" 2>&1 &
		pids+=($!)
	done
	for kind in "${!jobs[@]}"; do
		wait "${pids[0]}"
		report $? "$kind: $2 ${1}s" || diag "$(tail -n 20 "$dir/$1.$kind.log")"
		pids=("${pids[@]:1}")
		check "$kind: it runs" wait_ready "${jobs[$kind]}" 60
	done
}

# phase WAY N
phase()
{
	local kind made=$warm more
	[[ $2 -gt $warm ]] || { diag "too few ${1}s: left out"; return; }
	rm -f "$dir"/*.measured
	rounds "$1" $warm
	look first
	while [[ $made -lt $2 ]]; do
		more=$(($2 - made < block ? $2 - made : block))
		rounds "$1" "$more"
		made=$((made + more))
		look last
		not_grown "$1" "$made"
	done
}

# not_grown WAY N: after N rounds
not_grown()
{
	local kind
	for kind in "${!jobs[@]}"; do
		growth "$kind" "$2" >"$dir/$kind.growth"
		check_not "$kind: nothing has grown after $2 ${1}s" grep GROWN "$dir/$kind.growth"
		diag "$(cat "$dir/$kind.growth")"
	done
}

for kind in "${!jobs[@]}"; do
	check "$kind: the step runs under gpuckpt" wait_ready "${jobs[$kind]}" 60
done
phase checkpoint "$checkpoints"
phase restart "$restarts"

alice touch "$dir/enough"
for kind in "${!jobs[@]}"; do
	check "$kind: the job ends" wait_job "${jobs[$kind]}" COMPLETED 300
	is "$(job_restarts "${jobs[$kind]}")" "$restarts" \
		"$kind: Slurm has restarted it $restarts times"
done
check "C: the answer is that of an uninterrupted run" cmp "$dir/burn.want" "$dir/burn.out"
check "python: the answer is that of an uninterrupted run" cmp "$dir/walk.want" "$dir/walk.out"
read -r _ _ _ _ _ steps <"$dir/ring.out"
is "$(sort "$dir/ring.out")" "$("$ring" want 2 "$steps")" \
	"MPI: the answers are those of an uninterrupted run"
finish
