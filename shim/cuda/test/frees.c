/* SPDX-License-Identifier: Apache-2.0
 * The ways in which memory is freed, while other threads run and streams are in capture: on the
 * fake driver alone and under the stand-in. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/test/kernels.h"
#include "test/support/tap.h"

#define SIZE ((size_t)3 << 20)

static CUcontext context;
static CUmodule module;
static uint64_t *flag; /* spin's kernel waits for it */

static size_t available(void)
{
	size_t bytes = 0, total;

	cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

static CUdeviceptr allocate(void)
{
	CUdeviceptr at = 0;

	is_int(cuMemAlloc_v2(&at, SIZE), 0, "cuMemAlloc");
	return at;
}

static CUstream stream(void)
{
	CUstream s = NULL;

	is_int(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), 0, "cuStreamCreate");
	return s;
}

static void spin(CUstream where)
{
	uint64_t at = (uintptr_t)flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	*flag = 0;
	is_int(cuModuleGetFunction(&f, module, "wait_flag") |
		       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, where, params, NULL),
	       0, "a kernel waits for the host");
}

static void begin(void)
{
	is_int(cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context) |
		       cuMemAllocHost_v2((void **)&flag, 8) | cuModuleLoadData(&module, ""),
	       0, "the program has a context");
}

/* ---- two at a time -------------------------------------------------------------------------- */

struct job {
	pthread_t thread;
	CUdeviceptr at;
	CUresult rc;
};

static void *run_free(void *arg)
{
	struct job *j = arg;

	cuCtxSetCurrent(context);
	j->rc = cuMemFree_v2(j->at);
	return NULL;
}

/* Both frees wait for a kernel, and return together. */
static void twice(void)
{
	size_t before = available();
	struct job jobs[2];
	CUstream s = stream();

	jobs[0].at = jobs[1].at = allocate();
	spin(s);
	for (int i = 0; i < 2; i++)
		pthread_create(&jobs[i].thread, NULL, run_free, &jobs[i]);
	usleep(100000);
	*flag = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(jobs[i].thread, NULL);
	ok(all_of((jobs[0].rc == CUDA_SUCCESS) != (jobs[1].rc == CUDA_SUCCESS),
		  jobs[0].rc + jobs[1].rc == CUDA_ERROR_INVALID_VALUE),
	   "one of two concurrent frees of the same memory succeeds");
	ok(available() == before, "as much memory is free as before");
	cuStreamDestroy_v2(s);
}

/* ---- in a stream's order -------------------------------------------------------------------- */

static void in_order(CUresult (*free_async)(CUdeviceptr at, CUstream stream), const char *name)
{
	size_t before = available();
	CUdeviceptr at = allocate();
	CUstream s = stream();

	is_int(cuMemsetD8Async(at, 1, SIZE, s), 0, "a stream works on memory");
	is_int(free_async(at, s), 0, name);
	is_int(cuStreamSynchronize(s), 0, "the stream is synchronized");
	ok(available() == before, "the memory is free again");
	is_int(free_async(at, s), CUDA_ERROR_INVALID_VALUE, "a second free is refused");
	at = allocate();
	is_int(free_async(at + 512, s), CUDA_ERROR_INVALID_VALUE,
	       "a free inside of an allocation is refused");
	is_int(free_async(at, NULL) | cuCtxSynchronize(), 0,
	       "a free in the default stream's order succeeds");
	cuStreamDestroy_v2(s);
}

/* ---- beside a capture ----------------------------------------------------------------------- */

static void *set_flag(void *arg)
{
	usleep(100000);
	*(volatile uint64_t *)flag = 1;
	return arg;
}

/* Memory that a kernel may use is not allocated again before the kernel ends. */
static void is_not_reused(CUdeviceptr freed, const char *name)
{
	CUdeviceptr at = allocate();

	ok(at != freed || *(volatile uint64_t *)flag == 1, "%s", name);
	is_int(cuMemFree_v2(at), 0, "the new allocation is freed");
}

/* The thread may free memory: work on other streams is waited for, and the capture survives. */
static void in_capture(CUstreamCaptureMode mode, const char *name)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr at = allocate();
	CUstream captured = stream(), other = stream();
	pthread_t thread;
	CUgraph graph;

	is_int(cuStreamBeginCapture_v2(captured, mode), 0, name);
	cuThreadExchangeStreamCaptureMode(&relaxed);
	spin(other);
	pthread_create(&thread, NULL, set_flag, NULL);
	is_int(cuMemFree_v2(at), 0, "memory is freed");
	is_not_reused(at, "it is not allocated again while a kernel runs");
	at = allocate();
	is_int(cuMemFreeAsync(at, other), 0,
	       "memory is freed in the order of a stream that is not in capture");
	cuThreadExchangeStreamCaptureMode(&relaxed);
	is_int(cuStreamEndCapture(captured, &graph), 0, "the capture survives");
	pthread_join(thread, NULL);
	is_int(cuCtxSynchronize(), 0, "all work is done");
	cuStreamDestroy_v2(captured);
	cuStreamDestroy_v2(other);
}

/* The kernel is on a stream that the stand-in does not know. */
static void unseen(unsigned int flags, bool legacy, const char *name)
{
	size_t before = available();
	CUdeviceptr at = allocate();
	CUstream other = legacy ? CU_STREAM_LEGACY : stream(), captured = NULL;
	pthread_t thread;
	CUgraph graph;

	spin(other);
	if (!legacy)
		cuStreamDestroy_v2(other);
	is_int(cuStreamCreate(&captured, flags), 0, name);
	is_int(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), 0,
	       "another stream is in capture");
	pthread_create(&thread, NULL, set_flag, NULL);
	is_int(cuMemFree_v2(at), 0, "memory is freed");
	is_not_reused(at, "it is not allocated again before the kernel ends");
	is_int(cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE, "a second free is refused");
	is_int(cuStreamEndCapture(captured, &graph), 0, "the capture survives");
	pthread_join(thread, NULL);
	is_int(cuStreamDestroy_v2(captured) | cuCtxSynchronize(), 0, "all work is done");
	ok(available() == before, "as much memory is free as before");
}

static volatile bool captured_enough;

static void *capture_often(void *arg)
{
	CUresult rc = cuCtxSetCurrent(context);
	CUstream s = stream();
	CUgraph graph;

	while (!rc && !captured_enough) {
		rc = cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED);
		if (!rc)
			rc = cuStreamEndCapture(s, &graph);
	}
	is_int(rc, 0, "another thread's captures survive");
	return arg;
}

/* FAKE_CUDA_SLOW: it takes a while to ask whether a stream is in capture. */
static void beside_captures(void)
{
	CUresult rc = CUDA_SUCCESS;
	pthread_t thread;

	pthread_create(&thread, NULL, capture_often, NULL);
	for (int i = 0; !rc && i < 200; i++) {
		CUdeviceptr at;

		rc = cuMemAlloc_v2(&at, SIZE) | cuMemFree_v2(at);
	}
	captured_enough = true;
	is_int(rc, 0, "memory is allocated and freed meanwhile");
	pthread_join(thread, NULL);
	is_int(cuCtxSynchronize(), 0, "all work is done");
}

/* ---- with its context ----------------------------------------------------------------------- */

static void *destroy(void *arg)
{
	cuCtxSetCurrent(context);
	is_int(cuCtxDestroy_v2(arg), 0, "a context is destroyed");
	return NULL;
}

/* FAKE_CUDA_SLOW: the destruction returns after another context has got the same handle. */
static void contexts(void)
{
	size_t before = available();
	CUcontext one, two, popped;
	pthread_t thread;
	CUdeviceptr at;

	is_int(cuCtxCreate_v4(&one, NULL, 0, 0), 0, "a context is created");
	allocate();
	cuCtxPopCurrent_v2(&popped);
	pthread_create(&thread, NULL, destroy, one);
	usleep(100000);
	is_int(cuCtxCreate_v4(&two, NULL, 0, 0), 0, "another context is created");
	at = allocate();
	pthread_join(thread, NULL);
	is_int(cuMemFree_v2(at), 0, "the other context's memory survives");
	is_int(cuCtxDestroy_v2(two), 0, "the other context is destroyed");
	cuCtxSetCurrent(context);
	ok(available() == before, "the memory of both is free");
}

/* Memory freed in a context waits for the end of a capture elsewhere, or of the context. */
static void with_what_waits(void)
{
	size_t before = available();
	CUstream captured = stream();
	CUcontext one;
	CUgraph graph;

	is_int(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), 0,
	       "a stream is in capture");
	is_int(cuCtxCreate_v4(&one, NULL, 0, 0), 0, "a context is created");
	is_int(cuMemFree_v2(allocate()) | cuCtxDestroy_v2(one), 0,
	       "its memory is freed and it is destroyed");
	ok(available() == before, "as much memory is free as before");
	is_int(cuStreamEndCapture(captured, &graph) | cuStreamDestroy_v2(captured), 0,
	       "the capture survives");
}

/* ---- with other devices --------------------------------------------------------------------- */

static volatile bool enough;

static void *enable(void *arg)
{
	CUcontext own;
	CUresult rc = cuDevicePrimaryCtxRetain(&own, 1) | cuCtxSetCurrent(own);

	while (!rc && !enough)
		rc = cuCtxEnablePeerAccess(context, 0);
	is_int(rc, 0, "another thread enables peer access all the time");
	return arg;
}

/* Memory of one device is copied and filled in the context of another, on streams too. */
static void from_another(void)
{
	uint64_t word = 0;
	CUdeviceptr at[2];
	CUcontext other;
	CUresult rc;

	is_int(cuMemAlloc_v2(&at[0], 1 << 20), 0, "memory of a device is allocated");
	cuDevicePrimaryCtxRetain(&other, 1);
	cuCtxSetCurrent(other);
	is_int(cuMemcpyHtoD_v2(at[0], &(uint64_t){42}, sizeof word), 0,
	       "it is written in the context of another device");
	is_int(cuMemcpyDtoH_v2(&word, at[0], sizeof word), 0, "it is read there");
	is_int((long long)word, 42, "the data is right");
	is_int(cuMemAlloc_v2(&at[1], 1 << 20), 0, "memory of the other device is allocated");
	rc = cuMemcpyDtoDAsync_v2(at[1], at[0], sizeof word, NULL) |
	     cuMemsetD8Async(at[0], 7, sizeof word, NULL) |
	     cuMemcpyDtoHAsync_v2(&word, at[1], sizeof word, NULL) | cuCtxSynchronize();
	is_int(rc ? -1 : (long long)word, 42, "a copy to the other device is right");
	cuCtxSetCurrent(context);
	rc = cuMemcpyDtoH_v2(&word, at[0], sizeof word);
	is_int(rc ? -1 : (long long)(word >> 56), 7, "a fill from the other device is there");
	is_int(cuMemFree_v2(at[0]) | cuMemFree_v2(at[1]), 0, "both are freed");
	cuDevicePrimaryCtxRelease_v2(1);
}

/* Slabs are made and freed all the time. */
static void peers(void)
{
	CUdeviceptr at[3];
	CUresult rc = CUDA_SUCCESS;
	pthread_t thread;

	pthread_create(&thread, NULL, enable, NULL);
	for (int i = 0; !rc && i < 300; i++) {
		for (int k = 0; k < 3; k++)
			rc |= cuMemAlloc_v2(&at[k], (size_t)34 << 20);
		for (int k = 0; k < 3; k++)
			rc |= cuMemFree_v2(at[k]);
	}
	enough = true;
	is_int(rc, 0, "large memory is allocated and freed");
	pthread_join(thread, NULL);
}

int main(void)
{
	begin();
	twice();
	in_order(cuMemFreeAsync, "cuMemFreeAsync of memory of cuMemAlloc");
	in_order(cuMemFreeAsync_ptsz, "cuMemFreeAsync_ptsz of memory of cuMemAlloc");
	in_capture(CU_STREAM_CAPTURE_MODE_GLOBAL, "a stream is in global capture");
	in_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "a stream is in thread-local capture");
	unseen(CU_STREAM_NON_BLOCKING, false, "a kernel runs on a destroyed stream");
	unseen(CU_STREAM_DEFAULT, true, "a kernel runs on the default stream");
	beside_captures();
	contexts();
	with_what_waits();
	from_another();
	peers();
	return tap_done();
}
