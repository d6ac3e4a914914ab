/* SPDX-License-Identifier: Apache-2.0
 * Memory that is freed while kernels may still use it and other streams are in capture, and memory
 * of one device in the context of another: with the driver alone and under the stand-in, which must
 * give the same answers. */
#include "driver.h"

#include <pthread.h>

#define SIZE (32 * MIB)
#define WORDS (SIZE / sizeof(unsigned))

static volatile unsigned *flag; /* the kernel waits for it */
static volatile bool enough;

__global__ static void write_later(volatile unsigned *when, unsigned *p, size_t n)
{
	while (!*when)
		;
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		p[i] = 7;
}

static CUstream stream(unsigned flags)
{
	CUstream s;

	MUST(cuStreamCreate(&s, flags));
	return s;
}

static CUdeviceptr allocate(void)
{
	CUdeviceptr at;

	MUST(cuMemAlloc(&at, SIZE));
	return at;
}

static void *set_flag(void *arg)
{
	usleep(100000);
	*flag = 1;
	return arg;
}

static void start(void)
{
	CUstream s;

	gpu_init();
	MUST(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocDefault));
	*flag = 1;
	s = stream(CU_STREAM_NON_BLOCKING); /* the kernel is loaded before anything is in capture */
	write_later<<<1, 32, 0, s>>>(flag, NULL, 0);
	MUST(cuStreamDestroy(s));
	MUST(cuCtxSynchronize());
}

/* A kernel writes later to memory that is freed now. The next allocation must not see its words. */
static void is_not_reused(CUdeviceptr freed)
{
	static unsigned words[WORDS];
	CUstream own = stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr next;
	pthread_t thread;

	pthread_create(&thread, NULL, set_flag, NULL);
	MUST(cuMemFree(freed));
	next = allocate();
	CHECK(next != freed || *flag);
	MUST(cuMemsetD32Async(next, 9, WORDS, own));
	MUST(cuStreamSynchronize(own));
	pthread_join(thread, NULL);
	usleep(50000);
	MUST(cuMemcpyDtoHAsync(words, next, SIZE, own));
	MUST(cuStreamSynchronize(own));
	for (size_t i = 0; i < WORDS; i++)
		CHECK(words[i] == 9);
	MUST(cuMemFree(next));
	MUST(cuStreamDestroy(own));
}

static CUdeviceptr written_later(CUstream where)
{
	CUdeviceptr at = allocate();

	*flag = 0;
	write_later<<<1, 32, 0, where>>>(flag, (unsigned *)at, WORDS);
	MUST(cudaGetLastError());
	return at;
}

static void alone(void)
{
	start();
	is_not_reused(written_later(stream(CU_STREAM_NON_BLOCKING)));
	is_not_reused(written_later(NULL));
}

/* flags: of the stream in capture. The kernel runs on another stream, which may be destroyed, or on
 * the legacy stream. */
static void beside(unsigned flags, CUstreamCaptureMode mode, bool legacy, bool destroyed)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream captured = stream(flags), other = legacy ? NULL : stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr at = written_later(other);
	CUgraph graph = NULL;

	if (destroyed)
		MUST(cuStreamDestroy(other));
	MUST(cuStreamBeginCapture(captured, mode));
	MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
	is_not_reused(at);
	MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
	MUST(cuStreamEndCapture(captured, &graph));
	CHECK(graph != NULL);
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(captured));
	MUST(cuCtxSynchronize());
}

static void beside_capture(void)
{
	start();
	beside(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL, false, false);
	beside(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, false);
	beside(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED, false, true);
	beside(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED, true, false);
	beside(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED, false, false);
	beside(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED, true, false);
}

/* Memory that was freed during a capture is free again, except what the slabs may keep. */
static void comes_back(void)
{
	size_t before = 0, after, total;

	start();
	for (int i = 0; i < 40; i++) {
		if (i == 4)
			MUST(cuMemGetInfo(&before, &total));
		beside(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED, i % 2, false);
	}
	MUST(cuMemGetInfo(&after, &total));
	printf("#   %zd MiB less are free\n", (ssize_t)(before - after) / (ssize_t)MIB);
	CHECK(after + 2 * SIZE > before);
}

static void *capture_often(void *arg)
{
	CUstream s;
	CUgraph graph;

	MUST(cuCtxSetCurrent(gpu_context));
	s = stream(CU_STREAM_NON_BLOCKING);
	while (!enough) {
		MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		write_later<<<1, 32, 0, s>>>(flag, NULL, 0);
		MUST(cuStreamEndCapture(s, &graph));
		MUST(cuGraphDestroy(graph));
	}
	return arg;
}

static void beside_captures(void)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	pthread_t thread;

	start();
	MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
	pthread_create(&thread, NULL, capture_often, NULL);
	for (int i = 0; i < 2000; i++)
		MUST(cuMemFree(allocate()));
	enough = true;
	pthread_join(thread, NULL);
	MUST(cuCtxSynchronize());
}

/* ---- two devices ---------------------------------------------------------------------------- */

/* A kernel of the other device writes to it. */
static void reach(CUcontext other, CUdeviceptr at)
{
	unsigned words[4] = {};

	MUST(cudaSetDevice(1));
	MUST(cudaDeviceEnablePeerAccess(0, 0));
	write_later<<<1, 32>>>(flag, (unsigned *)at, 4);
	MUST(cudaDeviceSynchronize());
	MUST(cuCtxSetCurrent(other));
	MUST(cuMemcpyDtoH(words, at, sizeof words));
	CHECK(words[0] == 7 && words[3] == 7);
}

static void from_another(void)
{
	unsigned long long word = 42;
	CUdeviceptr at[2];
	CUcontext other;
	int count;

	start();
	MUST(cuDeviceGetCount(&count));
	if (count < 2)
		return;
	at[0] = allocate();
	MUST(cuDevicePrimaryCtxRetain(&other, 1));
	MUST(cuCtxSetCurrent(other));
	MUST(cuMemcpyHtoD(at[0], &word, sizeof word));
	word = 0;
	MUST(cuMemcpyDtoH(&word, at[0], sizeof word));
	CHECK(word == 42);
	at[1] = allocate();
	MUST(cuMemcpyDtoDAsync(at[1], at[0], sizeof word, NULL));
	word = 0;
	MUST(cuMemcpyDtoHAsync(&word, at[1], sizeof word, NULL));
	MUST(cuCtxSynchronize());
	CHECK(word == 42);
	reach(other, at[0]);
	MUST(cuCtxSetCurrent(gpu_context));
	MUST(cuMemFree(at[0]));
	MUST(cuMemFree(at[1]));
}

static const struct gpu_case cases[] = {
	{"alone", alone},
	{"beside_capture", beside_capture},
	{"comes_back", comes_back},
	{"beside_captures", beside_captures},
	{"from_another", from_another},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
