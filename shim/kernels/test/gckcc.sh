#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gckcc in nvcc's place: programs are built, kernels have their points, errors name the source's
# line.
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[[ -x $nvcc ]] || { echo "1..0 # SKIP no nvcc in ${nvcc%/*}"; exit 0; }
build=$PWD dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GCKCC_NVCC=$nvcc GCKCC_POINTS=$build/gpuckpt-points
tests=0 status=0

report() # STATUS NAME
{
	tests=$((tests + 1))
	[[ $1 -eq 0 ]] || { status=1; printf 'not '; }
	echo "ok $tests - $2"
	[[ $1 -eq 0 ]] || sed 's/^/# /' "$dir/log"
}

gckcc() { "$build/gckcc" -arch=sm_90 "$@" >"$dir/log" 2>&1; }

cd "$dir" || exit
cat >a.cu <<'END'
#include <cooperative_groups.h>
#include <cstdio>
#define STEP(x) do { x; _Pragma("gpuckpt point") } while (0)
template<class T> __device__ T twice(T x) { return x + x; }
__global__ void marked(float *p, int n)
{
	__shared__ float s[64];
	for (int i = 0; i < n; i++) {
#pragma CPT
		s[threadIdx.x] = p[i];
		__syncthreads();
		p[i + threadIdx.x] += twice(s[63 - threadIdx.x]);
		__syncthreads();
	}
}
__global__ void macro(float *p, int n)
{
	for (int i = 0; i < n; i++)
		STEP(p[threadIdx.x] *= 1.5f);
}
__global__ void plain(float *p, int n)
{
	for (int i = 0; i < n; i++)
		p[threadIdx.x] = p[threadIdx.x] * 1.5f + i;
}
__global__ void meet(float *p, int n)
{
	auto grid = cooperative_groups::this_grid();
	for (int i = 0; i < n; i++) {
#pragma CPT
		p[(grid.thread_rank() + i) % n] += __shfl_xor_sync(~0u, i, 1);
		grid.sync();
		auto here = grid.barrier_arrive();
		p[grid.thread_rank()] *= 1.5f;
		grid.barrier_wait(std::move(here));
	}
}
int main(int argc, char **argv)
{
	if (argc == 99)
		marked<<<1, 64>>>(nullptr, 1), macro<<<1, 1>>>(nullptr, 1),
			plain<<<1, 1>>>(nullptr, 1);
	puts(argv[1]);
}
END

gckcc -O3 a.cu -o a && [[ $(./a "a word") = "a word" ]]
report $? "a program is built and runs"
gckcc -O3 -ptx a.cu -o a.ptx && [[ $(grep -c '.ckpt.6. = ' a.ptx) = 3 ]] &&
	grep -q '_Z6markedPfi.ckpt.6. = ' a.ptx && grep -q '_Z5macroPfi.ckpt.6. = ' a.ptx
report $? "the kernels with a pragma have points"
grep -q '_Z4meetPfi.ckpt.6. = {.*, 2};' a.ptx
report $? "so has one with barriers of the grid"
gckcc --auto -O3 -ptx a.cu -o b.ptx && grep -q '_Z5plainPfi.ckpt.6. = ' b.ptx
report $? "--auto: so has a loop without one"

"$nvcc" -arch=sm_90 -O3 -ptx a.cu -o c.ptx >log 2>&1 &&
	GCKCC_PTXAS=${nvcc%/*}/ptxas "$build/gckcc-ptxas" -arch=sm_90 c.ptx -o c.cubin >log 2>&1 &&
	grep -q '_Z5plainPfi.ckpt' c.cubin &&
	"$build/gckcc-ptxas" --version | grep -q 'ptxas'
report $? "gckcc-ptxas: PTX of a program that compiles it itself"
"$nvcc" -arch=sm_90 -MD -MF want.d -c a.cu -o dir.o >log 2>&1 &&
	"$build/gckcc" -arch=sm_90 -MD -MF got.d -c a.cu -o dir.o 2>log && diff want.d got.d >log &&
	grep -q cuda_runtime.h got.d && [[ -s dir.o ]]
report $? "-MD: dependencies are nvcc's"
mkdir cmake
cat >cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.18)
project(a LANGUAGES CXX CUDA)
add_executable(a ../a.cu)
END
if command -v cmake >/dev/null; then
	cmake -S cmake -B cmake/b -DCMAKE_CUDA_COMPILER="$build/gckcc" \
		-DCMAKE_CUDA_ARCHITECTURES=90 >log 2>&1 && cmake --build cmake/b >log 2>&1 &&
		[[ $(cmake/b/a word) = word ]] && grep -q '_Z6markedPfi.ckpt' cmake/b/a
	report $? "it is CMake's CUDA compiler"
else
	report 0 "it is CMake's CUDA compiler # SKIP no cmake"
fi

code() { tr -d ' \t' <"$1" | grep -vE '^(//.*)?$'; } # fatbinary drops blanks and comments
fatbins=0
for mode in none speed size; do
	"$nvcc" -O3 -fatbin -compress-mode="$mode" -gencode arch=compute_80,code=compute_80 \
		-gencode arch=compute_90,code='[sm_90,compute_90]' a.cu -o "$mode.fatbin" \
		>log 2>&1 && "$build/kernels_fatbin" "$mode.fatbin" 90 >"$mode.ptx" 2>log &&
		diff <(code "$mode.ptx") <(code c.ptx) >log && fatbins=$((fatbins + 1))
done
[[ $fatbins = 3 ]]
report $? "the PTX in fatbins is read, compressed or not"
{ cat c.ptx && echo '.visible .entry broken() {'; } >d.ptx
cat >ptxas <<'END'
#!/bin/sh
echo "$@" >called
END
chmod +x ptxas
GCKCC_PTXAS=$PWD/ptxas "$build/gckcc-ptxas" d.ptx -o d.cubin >log 2>&1 &&
	[[ $(cat called) = 'd.ptx -o d.cubin' && $(wc -l <log) = 1 ]]
report $? "PTX that the pass cannot follow: one line, and ptxas gets it as it is"

cat >refused.cu <<'END'
__global__ void k(float *p, int n)
{
	for (int i = 0; i < n; i++) {
#pragma CPT
		p[i] = __shfl_xor_sync(~0u, p[i + threadIdx.x], 1);
		asm volatile("bar.sync 1, 64;");
	}
}
END
! gckcc -c refused.cu -o refused.o && [[ ! -e refused.o ]] &&
	grep -q 'refused.cu:6: a named barrier' log
report $? "a kernel that cannot have points: its line"
cat >refused.cu <<'END'
#include <cooperative_groups.h>
__device__ __noinline__ void meet(void)
{
	cooperative_groups::this_grid().sync();
}
__global__ void k(float *p, int n)
{
	for (int i = 0; i < n; i++) {
#pragma CPT
		p[i] = i;
		meet();
	}
}
END
! gckcc -c refused.cu -o refused.o && grep -q 'grid.sync), in function .*meet.* declare it' log
report $? "a barrier of the grid in a function that is not inlined"
cat >refused.cu <<'END'
__global__ void k(float *p, int n)
{
	for (int i = 0; i < n; i++)
#pragma CPT
		p[i] = i;
}
END
! gckcc -c refused.cu -o refused.o && grep -q 'refused.cu:4: a point must stand between' log
report $? "a pragma that would become a loop's body: its line"
echo "1..$tests"
exit $status
