/* SPDX-License-Identifier: Apache-2.0
 * Which stream owns stream-ordered memory, and when, case by case: on the fake driver alone and
 * under the stand-in (`ours`), which has more cases. Each of two devices has 96 MiB. */
#include <pthread.h>
#include <unistd.h>

#include "shim/cuda/test/ordered_cases.h"

static void allow(CUmemPool_attribute what, int yes)
{
	is_int(cuMemPoolSetAttribute(pool, what, &yes), 0, "a pool's setting");
}

/* ---- which stream may have memory, and when -------------------------------------------------- */

/* A stream may have what it freed before it reaches the free; another stream may not. */
static void same_stream(void)
{
	CUdeviceptr at = take(MIB, one), again, other;

	wait_flag_in(one);
	give(at, one);
	again = take(MIB, one);
	other = take(MIB, two);
	ok(!ours || again == at, "a stream gets at once what it freed");
	ok(other != at, "another stream does not");
	give(again, one);
	give(other, two);
	go();
}

/* Freed in a blocking stream after work in the default stream, for which the blocking stream waits
 * although it has no work of its own. */
static void implicit(void)
{
	CUdeviceptr at = take(LARGE, CU_STREAM_LEGACY), other = 0;
	CUstream blocking = NULL;
	CUresult rc;

	is_int(cuStreamCreate(&blocking, 0), 0, "there is a blocking stream");
	wait_flag_in(CU_STREAM_LEGACY);
	is_int(cuMemsetD8Async(at, 7, 1, CU_STREAM_LEGACY), 0,
	       "memory is used in the default stream");
	give(at, blocking);
	rc = cuMemAllocAsync(&other, LARGE, two);
	ok(rc == CUDA_SUCCESS && other != at, "no other stream gets it before that work is done");
	if (rc == CUDA_SUCCESS)
		give(other, two);
	go();
	is_int(cuStreamDestroy_v2(blocking), 0, "the stream is destroyed");
}

static void *set_flag(void *arg)
{
	usleep(50000);
	*(volatile uint64_t *)flag = 1;
	return arg;
}

/* The same with memory of cuMemAlloc, which is free once that work is done. */
static void implicit_plain(void)
{
	CUstream blocking = NULL;
	CUdeviceptr at = 0;
	pthread_t thread;

	is_int(cuStreamCreate(&blocking, 0) | cuMemAlloc_v2(&at, MIB), 0,
	       "there are a blocking stream and memory of cuMemAlloc");
	wait_flag_in(CU_STREAM_LEGACY);
	is_int(cuMemsetD8Async(at, 7, 1, CU_STREAM_LEGACY), 0,
	       "memory is used in the default stream");
	pthread_create(&thread, NULL, set_flag, NULL);
	give(at, blocking);
	ok(!ours || *(volatile uint64_t *)flag == 1, "the free waits for that work");
	pthread_join(thread, NULL);
	is_int(cuCtxSynchronize() | cuStreamDestroy_v2(blocking), 0, "all work is done");
}

/* There is no other memory: the stand-in makes a stream wait for another one. */
static void dependency(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other;

	wait_flag_in(one);
	is_int(cuMemsetD8Async(at, 1, LARGE, one), 0, "memory is written later");
	give(at, one);
	other = take(LARGE, two);
	is_int(cuMemsetD8Async(other, 2, LARGE, two), 0, "another stream writes there");
	usleep(20000);
	go();
	is_int(first_byte(other), 2, "the second stream writes after the first one");
	give(other, two);
	give(rest, one);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

static void no_dependency(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other = 0;

	allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
	wait_flag_in(one);
	give(at, one);
	is_int(cuMemAllocAsync(&other, LARGE, two), CUDA_ERROR_OUT_OF_MEMORY,
	       "no stream waits if the pool forbids it");
	go();
	allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
	other = take(LARGE, two);
	give(other, two);
	give(rest, two);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

/* Memory with a pending free is available to all allocations. */
static void pressure(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, two), plain = 0;

	give(at, one);
	give(rest, two);
	is_int(cuMemAlloc_v2(&plain, 2 * LARGE), 0, "cuMemAlloc gets what was freed in streams");
	is_int(cuMemFree_v2(plain), 0, "cuMemFree frees it");
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void stream_ends(void)
{
	CUdeviceptr at, other = 0;
	CUstream stream = NULL;
	CUresult rc;

	is_int(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0, "there is a stream");
	at = take(LARGE / 2, stream);
	wait_flag_in(stream);
	give(at, stream);
	is_int(cuStreamDestroy_v2(stream), 0, "it is destroyed with work on it");
	is_int(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0, "there is another stream");
	rc = cuMemAllocAsync(&other, LARGE / 2, stream);
	ok(rc == CUDA_SUCCESS && other != at, "it does not get what the first one still uses");
	give(other, stream);
	go();
	give(take(2 * LARGE, stream), stream);
	is_int(cuStreamDestroy_v2(stream) | cuCtxSynchronize(), 0,
	       "all work is done, and the stream is destroyed");
}

static void context_ends(void)
{
	CUcontext second, popped;
	CUdeviceptr remaining, freed;
	CUstream stream = NULL;

	is_int(cuCtxCreate_v4(&second, NULL, 0, 0) |
		       cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
	       0, "there is another context with a stream");
	remaining = take(MIB, stream);
	freed = take(LARGE, stream);
	is_int(cuMemsetD8Async(remaining, 5, MIB, stream), 0, "the stream uses memory");
	give(freed, stream);
	is_int(cuStreamSynchronize(stream) | cuCtxPopCurrent_v2(&popped) | cuCtxDestroy_v2(second),
	       0, "the context ends");
	is_int(first_byte(remaining), 5, "the device's memory survives the context");
	give(remaining, one);
	give(take(2 * LARGE, one), one);
	is_int(cuCtxSynchronize(), 0, "freed memory is available again");
}

int main(int argc, char *argv[])
{
	begin(argc, argv);
	same_stream();
	implicit();
	implicit_plain();
	if (ours) { /* the fake driver's own pools do not use other streams' memory */
		dependency();
		no_dependency();
		pressure();
		stream_ends();
	}
	context_ends();
	return tap_done();
}
