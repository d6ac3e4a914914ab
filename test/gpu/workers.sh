#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch trainings whose data come from worker processes, one with a compiled model: they are
# checkpointed while the workers run, their node is killed, and they go on on another one, to the
# losses of a run without interruption. Runs by `test/gpu/slurm run FILE gpu/workers`.
# shellcheck source=../cluster/lib.sh
. "$(dirname "$(readlink -f "$0")")/../cluster/lib.sh"
python=$(command -v python3)
"$python" -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null ||
	{ echo "1..0 # SKIP no PyTorch, or no GPU"; exit 0; }
program=$GPUCKPT_LAB/work/workers.py
cp "$top/test/gpu/workers.py" "$program"
epochs=${GPUCKPT_EPOCHS-4}
[[ ${GPUCKPT_WORKERS-} ]] || GPUCKPT_WORKERS="plain compile"
read -ra names <<<"$GPUCKPT_WORKERS"
declare -A dir job
for name in "${names[@]}"; do
	dir[$name]=$(work_dir)
done

# environment NAME: of both runs. Compiled code is not shared.
environment()
{
	echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-} CUBLAS_WORKSPACE_CONFIG=:4096:8" \
		"TORCHINDUCTOR_CACHE_DIR=${dir[$1]}/inductor" \
		"TRITON_CACHE_DIR=${dir[$1]}/triton"
}

run_alone()
{
	# shellcheck disable=SC2046 # a list
	alice env $(environment "$1") UNTIL=/ srun -Q -n1 "$python" "$program" "$epochs" "$1" \
		>"${dir[$1]}/want" 2>"${dir[$1]}/alone"
}
start()
{
	job[$1]=$(submit "${dir[$1]}" -N1 -n1 --export=ALL <<-END
		#!/bin/bash
		export $(environment "$1") UNTIL=${dir[$1]}/until
		srun --gpu-ckpt $python $program $epochs $1 >>answer
	END
	)
}
is_slow() { [[ $(grep -c '^step' "${dir[$1]}/out") -ge $2 ]]; }
# workers JOB: how many processes it has forked or started that live
workers() { root pgrep -u alice -f "$program" | wc -l; }

declare -A alone
for name in "${names[@]}"; do
	start "$name"
	run_alone "$name" &
	alone[$name]=$!
done
for name in "${names[@]}"; do
	check "$name: it trains, with workers" wait_for 60 is_slow "$name" 3 ||
		diag "$(tail -n 5 "${dir[$name]}/out")"
	check "$name: able" wait_ready "${job[$name]}" ||
		diag "$(alice gpuckpt able "${job[$name]}" 2>&1 | head -n 20)"
	like "$(alice gpuckpt create --json "${job[$name]}" 2>&1 | tee "${dir[$name]}/commit")" \
		'"stall_ms"' "$name: create"
	diag "$name: stopped for $(jq '.steps[0].stall_ms' "${dir[$name]}/commit") ms," \
		"$(workers) processes in all"
done
sleep 1
for name in "${names[@]}"; do
	check "$name: the original goes on" is_slow "$name" 5
	check "$name: create again" alice gpuckpt create "${job[$name]}"
done
[[ ${GPUCKPT_LOOK-} ]] && bash -c "$GPUCKPT_LOOK"
for node in $(for name in "${names[@]}"; do job_nodes "${job[$name]}"; done | sort -u); do
	node_dies "${node#n}"
done
for name in "${names[@]}"; do
	check "$name: its node dies: the job starts again" \
		wait_for 90 job_restarted "${job[$name]}" 1
	check "$name: it can be checkpointed there" wait_ready "${job[$name]}" 60
	check "$name: create, after the restart" alice gpuckpt create "${job[$name]}"
	alice touch "${dir[$name]}/until"
	check "$name: the job ends" wait_job "${job[$name]}" COMPLETED 60
	wait "${alone[$name]}"
	report $? "$name: it runs alone" || diag "$(tail -n 5 "${dir[$name]}/alone")"
	is "$(cat "${dir[$name]}/answer")" "$(cat "${dir[$name]}/want")" \
		"$name: with the losses of a run without interruption"
done
((failures == 0)) || for name in "${names[@]}"; do
	diag "$name"$'\n'"$(tail -n 30 "${dir[$name]}/out")"
done
nodes_back
finish
