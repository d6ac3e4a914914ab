#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several programs use GPUs at once. They are checkpointed, the node on which all of them run is
# killed, they are requeued, and each gives the answer that it gives alone. Without a GPU there are
# only MPI ranks, on the fake driver. The directory GPUCKPT_CUDA_PROGRAMS has mpi_cuda, and
# libcuda-fake.so or, built by nvcc (test/gpu/slurm), work.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
built=${GPUCKPT_CUDA_PROGRAMS-}
[[ -x $built/mpi_cuda ]] || { echo "1..0 # SKIP no mpi_cuda in GPUCKPT_CUDA_PROGRAMS"; exit 0; }
bin=$GPUCKPT_LAB/work/cuda
mkdir -p "$bin"
cp "$built/mpi_cuda" "$bin"

# The jobs use this machine's driver, or the fake one.
if [[ -e /dev/nvidiactl ]]; then
	option='' libraries=${LD_LIBRARY_PATH-} rounds=2000 mib=256 ranks=2
else
	option=cuda=nvidia libraries=$bin/fake rounds=300 mib=1 ranks=4
	install -D "$built/libcuda-fake.so" "$bin/fake/libcuda.so.1"
fi

# Driver and GPU of one program change between its restarts.
# driver_is FILE GPU: its restart gets the GPU in the notation of FAKE_CUDA_NODE
driver_is()
{
	install -D "$built/$1" "$bin/other/libcuda.so.1"
	echo "$2" >"$bin/other/node"
}
# has_driver VERSION GPU: its restart has got that
has_driver()
{
	check "the driver of CUDA $1 is loaded in it" wait_for 60 loads "$1"
	check "it has a $2" wait_for 60 grep -q "GPU 0 is a $2 here" "${dir["$fresh"]}/out"
}
loads() { [[ $(grep '^driver' "${dir["$fresh"]}/out" | tail -n 1) = "driver $1" ]]; }

names=()
declare -A dir nodes tasks command job engine path

# program_is NAME NODES TASKS COMMAND...: its answer is what it prints. When its work has begun it
# makes the file "started" in GPUCKPT_SELF, or prints "step N" on stderr. It does not end while
# "hold" exists.
program_is()
{
	names+=("$1")
	dir[$1]=$(work_dir) nodes[$1]=$2 tasks[$1]=$3 command[$1]=${*:4}
}

# run_alone NAME: the answer goes into its file "want"
run_alone()
{
	# shellcheck disable=SC2086 # a command
	alice env LD_LIBRARY_PATH="${path[$1]-$libraries}" OMPI_MCA_mpi_yield_when_idle=1 \
		srun -Q --mpi=pmix -N"${nodes[$1]}" -n"${tasks[$1]}" ${command[$1]} \
		2>"${dir[$1]}/alone" |
		sort >"${dir[$1]}/want"
	[[ ${PIPESTATUS[0]} -eq 0 ]]
}

start()
{
	local how=${engine[$1]-$option}
	alice touch "${dir[$1]}/hold"
	job[$1]=$(submit "${dir[$1]}" -N"${nodes[$1]}" -n"${tasks[$1]}" \
		--ntasks-per-node=$((tasks[$1] / nodes[$1])) <<-END
		#!/bin/bash
		export OMPI_MCA_mpi_yield_when_idle=1 LD_LIBRARY_PATH=${path[$1]-$libraries}
		[[ ! "${path[$1]-}" ]] || export FAKE_CUDA_NODE=${path[$1]-}/node
		export GPUCKPT_SELF=${dir[$1]}
		srun --mpi=pmix --gpu-ckpt${how:+=$how} ${command[$1]} >>${dir[$1]}/answers
	END
	)
}

begun() { [[ -e ${dir[$1]}/started ]] || grep -q '^step [1-9]' "${dir[$1]}/out"; }

# for_all NAME-OF-CHECK SECONDS FUNCTION...: FUNCTION PROGRAM succeeds in time for each program
for_all()
{
	local what=$1 limit=$2 name
	shift 2
	for name in "${names[@]}"; do
		check "$name: $what" wait_for "$limit" "$@" "$name"
	done
}

is_ready() { ready "${job[$1]}"; }
create() { alice gpuckpt create "${job[$1]}"; }
# Each rank is built without its GPU.
create_verified()
{
	alice gpuckpt create --verify --json "${job[$1]}" >"${dir[$1]}/verified"
	jq -e '[.verified[].commits[].ranks[] | .builds and (.skipped // "" | test("GPU"))] | all' \
		"${dir[$1]}/verified" >/dev/null ||
		{
			diag "$(jq -c '[.verified[].commits[].ranks[]]' "${dir[$1]}/verified")"
			return 1
		}
}
requeue() { alice gpuckpt requeue "${job[$1]}"; }
restarted() { job_restarted "${job[$2]}" "$1"; }
release() { rm "${dir[$1]}/hold"; }
ended() { job_is "${job[$1]}" COMPLETED; }
on_n1() { job_nodes "${job[$1]}" | grep -qx n1; }

# script_with NAME COMMAND...: a script that runs them beside its arguments, and executes none in
# its own place
script_with()
{
	{
		printf '#!/bin/bash\n'
		printf '%s &\n' "${@:2}"
		printf '"$@" && wait\n'
	} >"$bin/$1"
	chmod 755 "$bin/$1"
}

# A static program, which no preload reaches: the rank has its numbers in a PID namespace after a
# restart.
cat >"$bin/static" <<'END'
#!/bin/busybox sh
i=0 wrong=0
while [ $i -lt 50 ] || [ -e "$GPUCKPT_SELF/hold" ]; do
	[ "$(busybox sh -c 'echo $PPID')" = $$ ] && kill -0 $$ || wrong=$((wrong + 1))
	busybox sleep 0.1
	i=$((i + 1))
done
echo "static: $wrong wrong"
END
chmod 755 "$bin/static"

if [[ $option ]]; then
	cp "$built/cuda_bulk" "$bin"
	# shellcheck disable=SC2016 # a script
	printf '#!/bin/sh\nexec %s 16 400 "${GPUCKPT_SELF-/}"\n' "$bin/cuda_bulk" >"$bin/bulk"
	chmod 755 "$bin/bulk"
	script_with three "$bin/bulk" "$bin/static"
	program_is "two programs and a static one in a script" 1 1 \
		"$bin/three" "$bin/mpi_cuda" $rounds $mib 1000
fi
python=$(command -v python3)
if [[ ! $option ]] && "$python" -c 'import torch' 2>/dev/null; then
	cp "$built/work" "$top/test/gpu/train.py" "$bin"
	script_with three "$bin/work $rounds 256" "$bin/static"
	program_is "PyTorch, another program and a static one in a script" 1 1 "$bin/three" \
		"$python" "$bin/train.py" 300
	engine["PyTorch in fresh drivers"]=cuda=replay
	program_is "PyTorch in fresh drivers" 1 1 "$python" "$bin/train.py" 300
fi

fresh="MPI and CUDA in fresh drivers"
engine["$fresh"]=cuda=replay
program_is "$fresh" 2 2 "$bin/mpi_cuda" $rounds $mib 1000
if [[ $option ]]; then
	path["$fresh"]=$bin/other
	driver_is libcuda-fake.so "a H200 | memory=512"
fi
# Last: node 1 has processors for all of them.
program_is "MPI and CUDA" 2 $ranks "$bin/mpi_cuda" $rounds $mib 1000

declare -A alone
for name in "${names[@]}"; do
	run_alone "$name" &
	alone[$!]=$name
done
for pid in "${!alone[@]}"; do
	wait "$pid"
	report $? "${alone[$pid]} runs alone" || diag "$(tail -n 5 "${dir[${alone[$pid]}]}/alone")"
done

check "the nodes are idle again" wait_for 30 all_idle
for name in "${names[@]}"; do
	start "$name"
done
for_all "the step runs under gpuckpt" 60 is_ready
for_all "it computes" 60 begun
for_all "create" 0 create
for_all "create again, and build the commit for a trial" 0 create_verified
for_all "it runs on node 1" 0 on_n1
[[ ! $option ]] || driver_is libcuda-fake-older.so "b H100 | memory=256"
node_dies 1
for_all "the node dies: the job starts again" 90 restarted 1
for_all "its ranks come back with their GPUs" 90 is_ready
[[ ! $option ]] || has_driver 12080 H100
for_all "create, after the restart" 0 create
if [[ -n $option || -n ${GPUCKPT_LONG-} ]]; then # time on a GPU is expensive
	[[ ! $option ]] || driver_is libcuda-fake.so "c H200 | memory=512"
	for_all "requeue" 0 requeue
	for_all "Slurm starts the job again" 90 restarted 2
	[[ ! $option ]] || has_driver 13000 H200
fi
for_all "it is released" 0 release
for_all "the job ends" 120 ended
for name in "${names[@]}"; do
	is "$(sort "${dir[$name]}/answers")" "$(cat "${dir[$name]}/want")" \
		"$name: with the answer that it gives alone"
done
((failures == 0)) || for name in "${names[@]}"; do
	diag "$name"$'\n'"$(tail -n 30 "${dir[$name]}/out")"
done
nodes_back
finish
