#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several steps of a job at once; a step that had finished; steps without --gpu-ckpt.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

burn=$(program burn)
dir=$(work_dir)
burn_answers 8 400 50 >"$dir/want1"
burn_answers 12 350 50 >"$dir/want2"
job=$(submit "$dir" -N2 -n2 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	echo "batch preload: \${LD_PRELOAD-none}"
	srun -n1 --gpu-ckpt bash -c 'echo ran >>first'
	echo "first gave \$?"
	srun -n1 --gpu-ckpt bash -c 'echo ran >>failed; exit 3'
	echo "failed gave \$?"
	srun -n1 -N1 grep -c gpuckpt /proc/self/maps
	srun -n1 -N1 bash -c 'echo "plain preload: \${LD_PRELOAD-none}"'
	srun -n1 -N1 --exact --gpu-ckpt bash -c 'exec $burn 8 400 50 >one' &
	# gpuckpt knows a step by its number: the steps must start in the same order both times.
	until squeue -hs -j \$SLURM_JOB_ID -o %i | grep -q '\.4$' || ! kill -0 \$!; do
		sleep 0.2
	done
	srun -n1 -N1 --exact --gpu-ckpt bash -c 'exec $burn 12 350 50 >two' &
	wait
END
)
both() { ready "$job" 4 && ready "$job" 5; }
check "two steps run at once" wait_for 40 both
check "create of the job checkpoints both" alice gpuckpt create "$job"
check "create of a step" alice gpuckpt create "$job.4"
check "requeue" alice gpuckpt requeue "$job"
check "the job is started again" wait_for 40 job_restarted "$job" 1
alice touch "$dir/enough"
check "the job ends" wait_job "$job" COMPLETED 90
check "the answer of the one step is right" cmp "$dir/want1" "$dir/one"
check "the answer of the other is right" cmp "$dir/want2" "$dir/two"
is "$(wc -l <"$dir/first")" 1 "the finished step was not run again"
is "$(grep -c '^first gave 0$' "$dir/out")" 2 "its exit status was returned both times"
is "$(grep -c 'finished.* is not run again' "$dir/out")" 1 \
	"the job's output says that it was not run again"
is "$(wc -l <"$dir/failed")" 2 "the step that failed was run again"
is "$(grep -c '^failed gave 3$' "$dir/out")" 2 "it gave its own exit status both times"
is "$(grep -c '^batch preload: none$' "$dir/out")" 2 "the batch step has no preload"
is "$(grep -c '^plain preload: none$' "$dir/out")" 2 "a step without --gpu-ckpt has no preload"
is "$(grep -cx 0 "$dir/out")" 2 "a step without --gpu-ckpt has no library of gpuckpt mapped"

rm "$dir/enough"
job=$(submit "$dir" -N1 -n1 --export="ALL,BURN_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	unset SLURM_OPEN_MODE # sbatch sets it
	srun --gpu-ckpt -o whole echo complete
	srun --gpu-ckpt=skip-done=no \\
		bash -c 'echo "ran, open mode \${SLURM_OPEN_MODE-none}" >>again'
	srun --gpu-ckpt bash -c 'exec $burn 8 400 50 >three'
END
)
step_2() { ready "$job" 2; }
check "a step runs after some that had finished" wait_for 40 step_2
check "requeue of that job" alice gpuckpt requeue "$job"
alice touch "$dir/enough"
check "it ends" wait_job "$job" COMPLETED 90
is "$(head -n 1 "$dir/whole")" complete "a finished step's output file (-o) keeps its lines"
is "$(wc -l <"$dir/again")" 2 "skip-done=no: the finished step ran again"
is "$(sort -u "$dir/again")" "ran, open mode none" "the plugin leaves no open mode in a step"
check "the answer is right" cmp "$dir/want1" "$dir/three"

# The script starts another program after the restart: the step has another fingerprint. And a job
# that it submits then has not been restarted itself.
echo 8 >"$dir/size"
job=$(submit "$dir" -N1 -n1 <<-END
	#!/bin/bash
	[[ -z \${SLURM_RESTART_COUNT-} ]] ||
		sbatch -N1 -o other --wrap='echo "count \${SLURM_RESTART_COUNT-none}"'
	srun --gpu-ckpt $burn \$(cat size) 4000 50
	sleep 5 # Slurm sometimes ends srun a moment before the script
	echo went-on
END
)
check "a step whose arguments will change runs under gpuckpt" wait_ready "$job"
check "create" alice gpuckpt create "$job"
echo 9 >"$dir/size"
root scontrol requeue "$job"
is_held() { job_restarted "$job" 1; [[ $(query "$job" .state) = held ]]; }
check "after the restart the step with other arguments is refused, and the job held" \
	wait_for 60 is_held
changed='not the step that was checkpointed as [0-9.]*\. Then: .* Now: '
like "$(cat "$dir/out")" "job $job is to be requeued and held: .*$changed" "its output says why"
like "$(query "$job" .last_error)" "$changed" "so does status"
like "$(root scontrol show job "$job" | grep AdminComment)" "$changed" "and AdminComment"
check_not "its script does not go on" grep -qx went-on "$dir/out"
counted() { grep -qx 'count none' "$dir/other"; }
check "a job that the restarted one submits has no count of restarts" wait_for 40 counted
echo 8 >"$dir/size"
root scontrol release "$job"
check "with the former arguments it is restored once it is released" wait_ready "$job" 60
end_job "$job"

# What a restart cuts from a log is kept elsewhere if its directory cannot be written. The program
# that the step's shell has executed is the process's program again.
rm -f "$dir/enough"
cat >"$dir/logs.py" <<-END
	import os, sys, time
	log = open('logs/log', 'a')
	log.write('before\n')
	log.flush()
	os.chmod('logs', 0o555)
	os.chmod('logs/log', 0o444)
	print('ready', flush=True)
	while not os.path.exists('enough'):
	    time.sleep(0.05)
	log.write('after\n')
	log.flush()
	again = 'import os; print("again", os.readlink("/proc/self/exe"), flush=True)'
	os.execv('/proc/self/exe', ['python3', '-c', again])
END
alice mkdir "$dir/logs"
job=$(submit "$dir" -N1 -n1 -o "$dir/logs.out" <<<'#!/bin/bash
srun --gpu-ckpt bash -c "exec python3 logs.py"')
is_logged() { grep -q ready "$dir/logs.out" && ready "$job"; }
check "a step has a log in a directory that cannot be written" wait_for 40 is_logged
like "$(alice gpuckpt able -v "$job")" "kept in $dir" "able says where a restart keeps what it cuts"
check "create" alice gpuckpt create "$job"
echo lost >>"$dir/logs/log"
root scontrol requeue "$job"
check "the job is started again" wait_for 40 job_restarted "$job" 1
check "the step runs again" wait_ready "$job" 60
alice touch "$dir/enough"
check "it ends" wait_job "$job" COMPLETED 60
is "$(cat "$dir/logs/log")" "before"$'\n'"after" "the log has what the program wrote"
is "$(cat "$dir/log.gpuckpt-cut-1")" lost "what was cut is in the working directory"
like "$(cat "$dir/logs.out")" "cut from $dir/logs/log .* is in $dir/log.gpuckpt-cut-1" \
	"and the job's output says so"
like "$(cat "$dir/logs.out")" "again /[^ ]*/python3" \
	"/proc/self/exe is the program, and not the shell that executed it"
finish
