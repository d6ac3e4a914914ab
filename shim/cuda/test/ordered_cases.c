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

/* ---- who may have it when ------------------------------------------------------------------- */

/* The stream itself, while it has not come so far; another one not. */
static void same_stream(void)
{
	CUdeviceptr at = take(MIB, one), again, other;

	wait_flag_in(one);
	give(at, one);
	again = take(MIB, one);
	other = take(MIB, two);
	ok(!ours || again == at, "a stream has at once what it freed");
	ok(other != at, "another one does not");
	give(again, one);
	give(other, two);
	go();
}

/* Freed in a blocking stream after work in the default one, which the stream waits for without
 * having been given anything. */
static void implicit(void)
{
	CUdeviceptr at = take(LARGE, CU_STREAM_LEGACY), other = 0;
	CUstream blocking = NULL;
	CUresult rc;

	is_int(cuStreamCreate(&blocking, 0), 0, "a blocking stream");
	wait_flag_in(CU_STREAM_LEGACY);
	is_int(cuMemsetD8Async(at, 7, 1, CU_STREAM_LEGACY), 0,
	       "memory is used in the default stream");
	give(at, blocking);
	rc = cuMemAllocAsync(&other, LARGE, two);
	ok(rc == CUDA_SUCCESS && other != at, "nobody else has it while that has not come so far");
	if (rc == CUDA_SUCCESS)
		give(other, two);
	go();
	is_int(cuStreamDestroy_v2(blocking), 0, "its end");
}

static void *set_flag(void *arg)
{
	usleep(50000);
	*(volatile uint64_t *)flag = 1;
	return arg;
}

/* The same with memory of cuMemAlloc, which is free once that has come so far. */
static void implicit_plain(void)
{
	CUstream blocking = NULL;
	CUdeviceptr at = 0;
	pthread_t thread;

	is_int(cuStreamCreate(&blocking, 0) | cuMemAlloc_v2(&at, MIB), 0,
	       "a blocking stream, and cuMemAlloc");
	wait_flag_in(CU_STREAM_LEGACY);
	is_int(cuMemsetD8Async(at, 7, 1, CU_STREAM_LEGACY), 0,
	       "memory is used in the default stream");
	pthread_create(&thread, NULL, set_flag, NULL);
	give(at, blocking);
	ok(!ours || *(volatile uint64_t *)flag == 1, "when that has come so far");
	pthread_join(thread, NULL);
	is_int(cuCtxSynchronize() | cuStreamDestroy_v2(blocking), 0, "all is done");
}

/* There is no other memory: a stream is made to wait for another one. */
static void dependency(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other;

	wait_flag_in(one);
	is_int(cuMemsetD8Async(at, 1, LARGE, one), 0, "it is still to be written");
	give(at, one);
	other = take(LARGE, two);
	is_int(cuMemsetD8Async(other, 2, LARGE, two), 0, "another stream writes there");
	usleep(20000);
	go();
	is_int(first_byte(other), 2, "after the first one");
	give(other, two);
	give(rest, one);
	is_int(cuCtxSynchronize(), 0, "all is done");
}

static void no_dependency(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, one), other = 0;

	allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
	wait_flag_in(one);
	give(at, one);
	is_int(cuMemAllocAsync(&other, LARGE, two), CUDA_ERROR_OUT_OF_MEMORY,
	       "no stream waits that is not to");
	go();
	allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
	other = take(LARGE, two);
	give(other, two);
	give(rest, two);
	is_int(cuCtxSynchronize(), 0, "all is done");
}

/* What is pending is there for all that want memory. */
static void pressure(void)
{
	CUdeviceptr at = take(LARGE, one), rest = take(LARGE, two), plain = 0;

	give(at, one);
	give(rest, two);
	is_int(cuMemAlloc_v2(&plain, 2 * LARGE), 0, "cuMemAlloc has what was freed in streams");
	is_int(cuMemFree_v2(plain), 0, "and gives it back");
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void stream_ends(void)
{
	CUdeviceptr at, other = 0;
	CUstream stream = NULL;
	CUresult rc;

	is_int(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0, "a stream");
	at = take(LARGE / 2, stream);
	wait_flag_in(stream);
	give(at, stream);
	is_int(cuStreamDestroy_v2(stream), 0, "is destroyed with work on it");
	is_int(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0, "another one");
	rc = cuMemAllocAsync(&other, LARGE / 2, stream);
	ok(rc == CUDA_SUCCESS && other != at, "has not what the first one still uses");
	give(other, stream);
	go();
	give(take(2 * LARGE, stream), stream);
	is_int(cuStreamDestroy_v2(stream) | cuCtxSynchronize(), 0, "but has when that is done");
}

static void context_ends(void)
{
	CUcontext second, popped;
	CUdeviceptr kept, freed;
	CUstream stream = NULL;

	is_int(cuCtxCreate_v4(&second, NULL, 0, 0) |
		       cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
	       0, "another context and its stream");
	kept = take(MIB, stream);
	freed = take(LARGE, stream);
	is_int(cuMemsetD8Async(kept, 5, MIB, stream), 0, "memory is used in it");
	give(freed, stream);
	is_int(cuStreamSynchronize(stream) | cuCtxPopCurrent_v2(&popped) | cuCtxDestroy_v2(second),
	       0, "it ends");
	is_int(first_byte(kept), 5, "memory is the device's, and stays");
	give(kept, one);
	give(take(2 * LARGE, one), one);
	is_int(cuCtxSynchronize(), 0, "what was freed is there again");
}

int main(int argc, char *argv[])
{
	begin(argc, argv);
	same_stream();
	implicit();
	implicit_plain();
	if (ours) { /* the fake driver's own pools know nothing of other streams' memory */
		dependency();
		no_dependency();
		pressure();
		stream_ends();
	}
	context_ends();
	return tap_done();
}
