#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An upgrade between a checkpoint and its restart: the next release uses images, journal and store
# of the installed one. GPUCKPT_PREFIX is an installation of the old release; GPUCKPT_UPGRADE is the
# command that installs the new one over it (make -C BUILD install, of a build with the same
# --prefix). LAMMPS (four MPI ranks on two nodes), python3, a C program with 64 threads and, if
# GPUCKPT_CUDA_PROGRAMS names a build with CUDA, a CUDA program on the fake driver: each gives the
# answer of an uninterrupted run. contrib/check does not run this: it has no old release.
[[ ${GPUCKPT_UPGRADE-} ]] || { echo "1..0 # SKIP GPUCKPT_UPGRADE names no new release"; exit 0; }
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=lammps.sh
. "$test_dir/lammps.sh"

dir=$(work_dir)
crowd=$(program crowd)
built=${GPUCKPT_CUDA_PROGRAMS-}
lammps_reference "$dir" 4000
/usr/bin/python3 "$top/test/programs/walk.py" 40000 "$dir/walk.want"
"$crowd" 64 1500 5 >"$dir/crowd.want"
install -m 644 "$top/test/programs/walk.py" "$dir"

jobs=("$(lammps_submit "$dir" 4000)")
jobs+=("$(submit "$dir" -n1 <<-END
	#!/bin/bash
	srun --gpu-ckpt /usr/bin/python3 walk.py 40000 walk.out
END
)")
jobs+=("$(submit "$dir" -n1 --export="ALL,CROWD_UNTIL=$dir/enough" <<-END
	#!/bin/bash
	srun --gpu-ckpt=compress=zstd bash -c 'exec $crowd 64 1500 5 >crowd.out'
END
)")
names=(LAMMPS python3 "64 threads")
if [[ -x $built/cuda_bulk ]]; then
	bin=$GPUCKPT_LAB/work/upgrade
	install -D "$built/cuda_bulk" "$bin/cuda_bulk"
	install -D "$built/libcuda-fake.so" "$bin/fake/libcuda.so.1"
	environment="LD_LIBRARY_PATH=$bin/fake FAKE_CUDA_MEMORY=1024 FAKE_CUDA_DEVICES=2"
	# shellcheck disable=SC2086 # words
	alice env $environment srun -Q "$bin/cuda_bulk" 64 400 "$dir" >"$dir/cuda.want"
	rm -f "$dir/started"
	alice touch "$dir/hold"
	jobs+=("$(submit "$dir" -n1 <<-END
		#!/bin/bash
		export $environment
		srun --gpu-ckpt=cuda=nvidia $bin/cuda_bulk 64 400 $dir >>$dir/cuda.out
	END
	)")
	names+=(CUDA)
	wait_for 60 test -e "$dir/started"
fi

check "LAMMPS computes" wait_for 60 lammps_reached "$dir" 10
for i in "${!jobs[@]}"; do
	check "${names[i]} runs under gpuckpt" wait_ready "${jobs[i]}" 60
	check "${names[i]}: a checkpoint by the old release" alice gpuckpt create "${jobs[i]}"
	check "${names[i]}: requeued and held" root scontrol requeuehold "${jobs[i]}"
done
for job in "${jobs[@]}"; do
	wait_job "$job" PENDING 60
done
old=$(alice gpuckpt list --json)
"$cluster" kill gpuckptd
check "the new release is installed" bash -c "$GPUCKPT_UPGRADE"
"$cluster" start gpuckptd
listed() { jq -S '[.steps[] | {job, commits: [.commits[].seq]}]'; }
is "$(alice gpuckpt list --json | listed)" "$(listed <<<"$old")" \
	"the new coordinator lists the same commits"
for i in "${!jobs[@]}"; do
	check "${names[i]}: the new release verifies the image" alice gpuckpt verify "${jobs[i]}"
	root scontrol release "${jobs[i]}"
	check "${names[i]}: the job is started again" wait_for 90 job_restarted "${jobs[i]}" 1
	check "${names[i]}: its ranks come back" wait_ready "${jobs[i]}" 60
	is "$(query "${jobs[i]}" .restored)" 1 "${names[i]}: from the old release's image"
	check "${names[i]}: a checkpoint by the new release" alice gpuckpt create "${jobs[i]}"
done
alice touch "$dir/enough"
rm -f "$dir/hold"
for i in "${!jobs[@]}"; do
	check "${names[i]} ends" wait_job "${jobs[i]}" COMPLETED 300
done
lammps_compare "$dir"
check "python3 gives the same answer" cmp "$dir/walk.want" "$dir/walk.out"
check "64 threads give the same answer" cmp "$dir/crowd.want" "$dir/crowd.out"
[[ ${#jobs[@]} -lt 4 ]] || check "CUDA gives the same answer" cmp "$dir/cuda.want" "$dir/cuda.out"
finish
