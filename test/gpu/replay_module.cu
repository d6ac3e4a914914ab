// SPDX-License-Identifier: Apache-2.0
// A module for replay.c, made by nvcc: a fatbin of a cubin and PTX. Its variables are seen by
// nothing else, and one is a function's own.
static __device__ unsigned long long hidden, total;
static __constant__ unsigned long long factor;

extern "C" __global__ void work(unsigned long long *p)
{
	static __device__ unsigned long long calls;

	calls++;
	total += factor;
	*p += hidden == 77 && calls * factor == total ? total : 1;
}
