#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The stand-in for libcuda.so.1: what it exports, and programs with and without it. Runs in the
# build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

names() { # LIBRARY
	nm -D --defined-only "$1" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort
}

names ./libgpuckpt-cuda.so >"$tmp/shown"
map=shim/cuda/cuda.map
[ -e $map ] || map=$srcdir/$map # the tarball has it
sed -n 's/^	\([A-Za-z].*\);$/\1/p' "$map" | LC_ALL=C sort >"$tmp/listed"
same "$(LC_ALL=C comm -3 "$tmp/shown" "$tmp/listed")" "" \
	"it exports what its table lists and nothing else"
same "$(readelf -d libgpuckpt-cuda.so | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" libcuda.so.1 \
	"its SONAME is the driver's"
same "$(readelf -d libgpuckpt-cuda.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')" libc.so.6 \
	"it needs libc and nothing else"
LC_ALL=C sort "${srcdir:-.}/shim/cuda/test/driver-580.names" >"$tmp/real"
same "$(LC_ALL=C comm -23 "$tmp/real" "$tmp/shown")" "" \
	"it has every function of the library of driver 580"

passes "a program runs on the fake driver" plain ./cuda_program
passes "a program runs under the stand-in" standin ./cuda_program
passes "a program runs on the driver that GPUCKPT_CUDA_LIBRARY names" standin env LD_LIBRARY_PATH= \
	GPUCKPT_CUDA_LIBRARY="$driver" ./cuda_program
passes "a program runs on the driver in a link namespace" env GPUCKPT_CUDA_LIBRARY="$driver" \
	LD_PRELOAD="$library:$PWD/gpu_namespace.so" ./cuda_program
export FAKE_CUDA_DEVICES=2 FAKE_CUDA_SLOW=cuCtxDestroy_v2=300,cuStreamIsCapturing=1
passes "memory is freed in all ways: the fake driver" plain ./cuda_frees
passes "memory is freed in all ways: the stand-in" standin ./cuda_frees
unset FAKE_CUDA_DEVICES FAKE_CUDA_SLOW
# By default each model runs with one seed, in short sequences. GPUCKPT_LONG=1: several seeds, long
# sequences.
seeds=1 quick=400 some=1200 few=300
if [ -n "${GPUCKPT_LONG-}" ]; then
	seeds="1 2 3" quick=3000 some=3000 few=3000
fi
for seed in $seeds; do
	passes "memory against a model, seed $seed: the fake driver" plain \
		./cuda_model "$seed" $quick
	passes "memory against a model, seed $seed: the stand-in" standin ./cuda_model "$seed" $some
	passes "managed memory against a model, seed $seed: the fake driver" plain \
		./cuda_managed "$seed"
	passes "managed memory against a model, seed $seed: the stand-in" standin \
		./cuda_managed "$seed"
	passes "the program's own mappings against a model, seed $seed: the fake driver" plain \
		./cuda_vmm "$seed"
	passes "the program's own mappings against a model, seed $seed: the stand-in" standin \
		./cuda_vmm "$seed"
	passes "stream-ordered memory against a model, seed $seed: the fake driver" plain \
		./cuda_ordered "$seed" $quick
	passes "stream-ordered memory against a model, seed $seed: the stand-in" standin \
		./cuda_ordered "$seed" $some
done
passes "the program's own mappings, without a descriptor of them" standin \
	env FAKE_CUDA_FAIL=cuMemExportToShareableHandle=1 ./cuda_vmm 3
passes "the program's own mappings, memory is free some time after its release" standin \
	env FAKE_CUDA_LATE=30 FAKE_CUDA_MEMORY=44 ./cuda_vmm 4
passes "a thread waits for memory that is free some time after its release" standin \
	env FAKE_CUDA_LATE=100 FAKE_CUDA_MEMORY=120 ./cuda_late_free
for way in FAKE_CUDA_CONCURRENT=0 FAKE_CUDA_MANAGED=there; do
	passes "managed memory is left to the driver ($way)" standin env $way ./cuda_managed 3
done
export FAKE_CUDA_MEMORY=96 FAKE_CUDA_DEVICES=2
passes "stream-ordered memory: the fake driver" plain ./cuda_ordered_cases
passes "stream-ordered memory: the stand-in" standin ./cuda_ordered_cases ours
passes "pools of stream-ordered memory: the fake driver" plain ./cuda_pools
passes "pools of stream-ordered memory: the stand-in" standin ./cuda_pools ours
unset FAKE_CUDA_MEMORY FAKE_CUDA_DEVICES
passes "stream-ordered memory on a small device" standin env FAKE_CUDA_MEMORY=64 \
	./cuda_ordered 3 $some
for rule in cuStreamQuery=999 cuEventQuery=999 cuCtxRecordEvent=999 cuStreamGetCtx=400 \
	cuStreamGetFlags:3+=400 \
	cuMemCreate:4+=2 cuMemExportToShareableHandle:3=1; do
	passes "stream-ordered memory, $rule" standin env FAKE_CUDA_FAIL=$rule ./cuda_ordered 5 $few
done
passes "stream-ordered memory without slabs" standin env FAKE_CUDA_FAIL=cuMemCreate=801 \
	./cuda_ordered 4 $few
passes "memory on a small device" standin env FAKE_CUDA_MEMORY=40 ./cuda_model 4 $some
for rule in cuMemAddressReserve=801 cuMemCreate=801 cuMemExportToShareableHandle:1=1; do
	passes "memory without slabs ($rule)" standin env FAKE_CUDA_FAIL=$rule ./cuda_model 5 $few
done
passes "functions are found by name, version and address" standin env GPUCKPT_CUDA=image \
	./cuda_names "$driver"

export FAKE_CUDA_PTX="$tmp/ptx"
passes "PTX of the program stays as it is" standin ./cuda_program_ptx ""
for kernels in loops also_loops,barred,loops auto; do
	passes "PTX of the program gets points, kernels=$kernels" standin \
		env GPUCKPT_KERNELS=$kernels ./cuda_program_ptx $kernels
done
passes "PTX that the driver does not take with points stays as it is" standin \
	env GPUCKPT_KERNELS=auto ./cuda_program_ptx auto refused
without() { # KERNELS ARGUMENT...: what is said, once each
	kernels=$1
	shift
	{ LD_PRELOAD=$library GPUCKPT_KERNELS=$kernels ./cuda_program_ptx "$@" >/dev/null; } 2>&1
}
same "$(without barred,straight,loops barred,straight,loops)" \
	"gpuckpt: kernel barred has no points: PTX line 33: a named barrier
gpuckpt: kernel straight has no points: it has no loop" \
	"named kernels without points are told, once"
same "$(without auto auto)" "" "with auto they are not"
same "$(without auto auto refused)" "gpuckpt: PTX of the program has no points: the driver does \
not take it with them (CUDA_ERROR_INVALID_PTX)" "PTX that the driver does not take is told"
unset FAKE_CUDA_PTX

says() { # NAME WANTED COMMAND...
	name=$1
	wanted=$2
	shift 2
	same "$("$@" 2>&1 </dev/null)" "$wanted" "$name"
}

says "without a driver there is no device" "cuInit 100" standin env LD_LIBRARY_PATH= ./cuda_first
for engine in image auto; do
	says "the driver's file by its path has the stand-in's functions ($engine)" "cuInit 0
the same" standin env GPUCKPT_CUDA=$engine ./cuda_first "$tmp/libcuda.so.1"
done
ln -s "$driver" "$tmp/libcuda.so"
says "and so it has by another name" "cuInit 0
the same" standin ./cuda_first libcuda.so
rm "$tmp/libcuda.so"
says "which leads nowhere where there is no such file" "cuInit 0
none" standin ./cuda_first libcuda.so
says "a library that does not exist: no device, and a message" \
	"gpuckpt: GPUCKPT_CUDA_LIBRARY names \
/nonexistent: No such file or directory: set it to the path of the real libcuda.so.1 or unset it
cuInit 100" standin env \
	GPUCKPT_CUDA_LIBRARY=/nonexistent ./cuda_first
GPUCKPT_CUDA_LIBRARY=$PWD/libcuda-old.so
export GPUCKPT_CUDA_LIBRARY
says "a function that an older driver does not have is not found" "loaded
cuInit 0
cuCtxRecordEvent: not found by dlsym, 500" standin ./cuda_first cuCtxRecordEvent
says "a program that never calls CUDA loads no driver" "" standin ./cuda_first -
says "a library's constructor may use the device before the stand-in's has run" \
	"a constructor's calls: 0" \
	env GPUCKPT_CUDA_LIBRARY="$driver" LD_PRELOAD="$library:$PWD/libcuda-early.so" \
	./cuda_first -
unset GPUCKPT_CUDA_LIBRARY
says "a child by fork may call cuInit, which fails" "cuInit 0
cuInit 3" standin ./cuda_first fork

tap_done
