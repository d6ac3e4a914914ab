/* SPDX-License-Identifier: Apache-2.0
 * The driver's behaviour on which the shim's gate relies: locks with a limit, calls during a
 * checkpoint, captures, idleness, and the driver's socket. */
#include "driver.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static cudaStream_t stream;
static int *number;

__global__ static void add(int *p, int k)
{
	atomicAdd(p, k);
}

__global__ static void spin(volatile int *flag)
{
	while (!*flag)
		;
}

static void start(void)
{
	MUST(cudaMalloc(&number, sizeof *number));
	MUST(cudaMemset(number, 0, sizeof *number));
	MUST(cudaStreamCreate(&stream));
}

static void busy(void)
{
	struct gpu_self self = {false, NULL, 300}; /* cuCtxSetLimit would wait for the kernel */
	volatile int *flag;

	MUST(cudaHostAlloc((void **)&flag, sizeof *flag, 0));
	*flag = 0;
	spin<<<1, 1>>>(flag);
	CHECK(!gpu_self_checkpoint(&self) && self.locked == CUDA_ERROR_NOT_READY);
	CHECK(cudaStreamQuery(0) == cudaErrorNotReady);
	*flag = 1;
	MUST(cudaDeviceSynchronize());
	self.timeout_ms = 0;
	CHECK(gpu_self_checkpoint(&self));
}

static void *call(void *done)
{
	int *p;

	MUST(cudaMalloc(&p, 1024));
	*(volatile bool *)done = true;
	return NULL;
}

static volatile bool called_back;

static void call_meanwhile(void)
{
	static pthread_t thread;

	pthread_create(&thread, NULL, call, (void *)&called_back);
	usleep(200000);
	CHECK(!called_back);
}

/* A call that is made while the process is checkpointed waits until it is restored. */
static void call_waits(void)
{
	struct gpu_self self = {true, call_meanwhile};

	start();
	CHECK(gpu_self_checkpoint(&self));
	for (int i = 0; i < 100 && !called_back; i++)
		usleep(10000);
	CHECK(called_back);
}

static bool capture_survives(void (*meanwhile)(void))
{
	cudaGraph_t g;

	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add<<<1, 1, 0, stream>>>(number, 1);
	meanwhile();
	return !cudaStreamEndCapture(stream, &g);
}

static void ask_capturing(void)
{
	CUstreamCaptureStatus status;

	MUST(cuStreamIsCapturing(stream, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK(cuStreamIsCapturing(CU_STREAM_LEGACY, &status) ==
	      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

static void checkpoint(void)
{
	CHECK(gpu_self_checkpoint(NULL));
}

static void query_legacy(void)
{
	cuStreamQuery(CU_STREAM_LEGACY);
}

static void record_context(void)
{
	CUevent event;

	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	cuCtxRecordEvent(gpu_context, event);
}

/* Calls that a capture survives, and calls that end it. */
static void capture(void)
{
	start();
	CHECK(capture_survives(ask_capturing));
	CHECK(capture_survives(checkpoint));
	CHECK(!capture_survives(query_legacy));
	CHECK(!capture_survives(record_context));
}

/* A capture ends with its stream. EndCapture without a capture fails. */
static void capture_ends(void)
{
	CUstream other;

	start();
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(!cuStreamDestroy(other));
	CHECK(!cuCtxSynchronize());
	CHECK(cuStreamEndCapture(stream, NULL));
	CHECK(capture_survives(ask_capturing));
}

static void *spin_per_thread(void *flag)
{
	cuCtxSetCurrent(gpu_context);
	spin<<<1, 1, 0, cudaStreamPerThread>>>((volatile int *)flag);
	return NULL;
}

/* An event of the context covers the work of streams that the shim does not know. */
static void context_event(void)
{
	pthread_t thread;
	CUevent event;
	volatile int *flag;

	start();
	MUST(cudaHostAlloc((void **)&flag, sizeof *flag, 0));
	*flag = 0;
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	pthread_create(&thread, NULL, spin_per_thread, (void *)flag);
	pthread_join(thread, NULL);
	MUST(cuCtxRecordEvent(gpu_context, event));
	CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	*flag = 1;
	MUST(cuCtxSynchronize());
	CHECK(cuEventQuery(event) == CUDA_SUCCESS);
}

/* ---- the driver's socket --------------------------------------------------------------------- */

static char bound[108];

/* Gives libcuda's socket another name: two restored ranks of a node may have had the same PID. */
extern "C" int bind(int fd, const struct sockaddr *address, socklen_t size) noexcept
{
	const struct sockaddr_un *named = (const struct sockaddr_un *)address;
	struct sockaddr_un other = {};

	if (address->sa_family != AF_UNIX || strncmp(named->sun_path + 1, "cuda-uvmfd-", 11))
		return (int)syscall(SYS_bind, fd, address, size);
	snprintf(bound, sizeof bound, "gpuckpt-test-%d", (int)getpid());
	other.sun_family = AF_UNIX;
	strcpy(other.sun_path + 1, bound);
	return (int)syscall(SYS_bind, fd, &other,
			    offsetof(struct sockaddr_un, sun_path) + 1 + strlen(bound));
}

static void renamed_socket(void)
{
	start();
	CHECK(bound[0]);
	CHECK(gpu_self_checkpoint(NULL) && gpu_self_checkpoint(NULL));
	MUST(cudaMemset(number, 1, sizeof *number));
	MUST(cudaDeviceSynchronize());
}

static const struct gpu_case cases[] = {
	{"busy", busy},
	{"call_waits", call_waits},
	{"capture", capture},
	{"capture_ends", capture_ends},
	{"context_event", context_event},
	{"renamed_socket", renamed_socket},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
