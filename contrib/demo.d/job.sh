# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The demo's jobs: submitted as alice, and followed in the output of Slurm, the program and gpuckpt.

: "${cluster:?}" "${home:?}" "${steps:=0}" "${bar_name:?}" "${progress_log:?}"

root() { "$cluster" exec "$@"; }
alice() { "$cluster" exec -u alice "$@"; }

# run_job NAME [SRUN-OPTION]: four ranks on two nodes, in a copy of the input; sets $job and $dir
run_job()
{
	dir=$home/$1
	rm -rf "$dir"
	cp -a "$home/input" "$dir"
	job=$(job_script "${2-}" |
		alice sbatch --parsable --requeue --open-mode=append -J "$1" -N2 -n4 \
		--chdir="$dir" -o "$dir/out") || fail "sbatch refused the job"
	job_seen=
	wait_for 60 job_runs || fail "job $job did not start" "$dir/out"
}

# wait_for SECONDS CMD...
wait_for()
{
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[[ $SECONDS -lt $end ]] || return 1
		sleep 0.1
	done
}

job_field() { root squeue -h -t all -j "$job" -o "$1"; }
job_runs() { [[ $(job_field %T) =~ RUNNING|COMPLETED ]]; }
job_ended()
{
	[[ ! $(job_field %T) =~ PENDING|CONFIGURING|RUNNING|COMPLETING|SUSPENDED|REQUEUED ]]
}
job_nodes() { root scontrol show hostnames "$(job_field %N)" | xargs; }
job_restarts() { root scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }

step_reached() { steps_of_ranks | awk 'NR == 1 || $1 < m { m = $1 } END { print m }'; }
step_mean() { steps_of_ranks | awk '{ s += $1 } END { print s / NR }'; }

# Print a line when Slurm's state of the job changes.
watch_job()
{
	local seen
	seen=$(job_field '%T %N')
	[[ $seen = "$job_seen" ]] || say "Slurm: job $job ${seen% *} ${seen#* }"
	job_seen=$seen
}

# follow_until CMD...: show progress until CMD succeeds or the job is over
follow_until()
{
	local end=$((SECONDS + 120)) step last=
	until "$@" || job_ended; do
		watch_job
		step=$(step_reached)
		bar "$bar_name" "$step" "$steps"
		[[ $step = "$last" ]] || end=$((SECONDS + 120)) last=$step
		[[ $SECONDS -lt $end ]] ||
			fail "job $job makes no progress" "$dir/out" "$dir/$progress_log"
		sleep 0.3
	done
}

reached() { [[ $(step_reached) -ge $1 ]]; }
follow_until_step() { follow_until reached "$1"; }

follow_until_end()
{
	follow_until job_ended
	watch_job
	bar "$bar_name" "$steps" "$steps"
	[[ $(job_field %T) = COMPLETED ]] ||
		fail "job $job: $(job_field %T)" "$dir/out" "$dir/$progress_log"
}

# ---- gpuckpt

step_state() { alice gpuckpt status "$job" --json 2>/dev/null | jq -r '.steps[0].state // "none"'; }
step_runs() { [[ $(step_state) = running ]]; }

# Take a checkpoint with the ranks running, unless the job ends first; show its write, keep its
# figures in $figures. Its cost is the time until a second after its commit, less the usual time of
# the steps done meanwhile.
checkpoint()
{
	local pid answer=$GPUCKPT_LAB/create.json progress begin first size
	first=$(step_mean) begin=$(now)
	say "gpuckpt create $job"
	alice gpuckpt create "$job" --json >"$answer" 2>"$answer.err" &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		progress=$(alice gpuckpt status "$job" --json |
			jq -r '.steps[0].checkpoint | "\(.done) \(.all)"')
		[[ ! $progress =~ ^[0-9]+\ [0-9]+$ ]] ||
			bar "writing the image" "${progress% *}" "${progress#* }"
		sleep 0.1
	done
	wait $pid || {
		wait_for 10 job_ended || fail "gpuckpt create: $(cat "$answer.err")" "$dir/out"
		return 0
	}
	bar "writing the image" 1 1
	figures+=("$(jq -r '.steps[0] |
		"\(.stall_ms * 10 | round / 10) \(.put) \(.stored) " +
		"\(.write_s * 100 | round / 100) \(.seq)"' "$answer")")
	# shellcheck disable=SC2086 # five words
	set -- ${figures[-1]}
	printf -v size '%s of memory, %s new in the store' "$(mib "$2")" "$(mib "$3")"
	say "commit $5: stall $1 ms, $size, $4 s to write"
	sleep 1
	losses+=("$(calc "$(since "$begin") - ($(step_mean) - $first) / $rate")")
}

# measure_rate: steps a second of a rank, undisturbed
measure_rate()
{
	local begin first
	first=$(step_mean) begin=$(now)
	sleep 3
	rate=$(calc "($(step_mean) - $first) / $(since "$begin")")
}

# figure COLUMN: one a line
figure() { printf '%s\n' "${figures[@]}" | awk -v c="$1" '{ print $c }'; }

median()
{
	sort -g | awk '{ v[NR] = $1 }
		END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
