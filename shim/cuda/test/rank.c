/* SPDX-License-Identifier: Apache-2.0
 * A rank with CUDA that does what it is told, a line at a time, and answers each with a line. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"

#define SIZE (1 << 20)
#define MORE (64 << 20)

static CUcontext context;
static CUmodule module;
static CUstream stream;
static CUdeviceptr data, managed, large;
static uint64_t *flag;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int init(void)
{
	int rc = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);

	rc |= cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) | cuMemAlloc(&data, SIZE);
	rc |= cuMemsetD8(data, 3, SIZE) | cuMemAllocHost((void **)&flag, 8);
	return rc | cuModuleLoadData(&module, "") | cuCtxSynchronize();
}

/* Of the device's memory, and one more each time. */
static int sum(void)
{
	static unsigned char host[SIZE];
	int total = cuMemcpyDtoH(host, data, SIZE) ? -1 : 0;

	for (int i = 0; total >= 0 && i < SIZE; i++)
		total += host[i];
	return total;
}

/* In slabs of its own. */
static int more(void)
{
	return cuMemAlloc(&large, MORE) | cuMemsetD8(large, 5, MORE) | cuCtxSynchronize();
}

static int spin(CUstream where)
{
	uint64_t at = (uintptr_t)flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	*flag = 0;
	return cuModuleGetFunction(&f, module, "wait_flag") |
	       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, where, params, NULL);
}

static void *synchronize(void *arg)
{
	pthread_setname_np(pthread_self(), "waiter");
	cuStreamSynchronize(stream);
	return arg;
}

static int start_waiter(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, synchronize, NULL) | pthread_detach(thread) | usleep(50000);
}

static void want_lock(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* A host function wants a lock whose owner comes to a closed gate. */
static int lockstep(void)
{
	size_t available, total;
	int rc;

	pthread_mutex_lock(&lock);
	rc = cuLaunchHostFunc(stream, want_lock, NULL);
	usleep(50000);
	rc |= cuMemGetInfo(&available, &total);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int spin_and_destroy(void)
{
	CUstream other;

	return cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) | spin(other) | cuStreamDestroy(other);
}

static int stack(void)
{
	size_t size = 0;

	return cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE) ? -1 : (int)size;
}

static int end_capture(void)
{
	CUgraph graph;

	return cuStreamEndCapture(stream, &graph);
}

static int open_event(void)
{
	CUipcEventHandle handle = {""};
	CUevent event;

	return cuIpcOpenEventHandle(&event, handle);
}

static int future(void)
{
	int (*f)(int *) = NULL, value = 0;
	CUresult rc = cuGetProcAddress_v2("cuFakeFuture", (void **)&f, 13000, 0, NULL);

	return rc ? (int)rc : f(&value);
}

static int use_opengl(void)
{
	int (*f)(void) = dlsym(RTLD_DEFAULT, "cuGLInit");

	return f ? f() : -1;
}

static int host_memory(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
	CUmemGenericAllocationHandle handle;

	return cuMemCreate(&handle, 2 << 20, &prop, 0);
}

/* Looked up twice. */
static int variable(void)
{
	CUdeviceptr at[2];
	int rc = 0;

	for (int i = 0; i < 2; i++)
		rc |= cuModuleGetGlobal(&at[i], NULL, module, "managed_x") | cuMemFree(at[i]);
	return rc;
}

/* Written throughout by a thread of the program's; never there while it would be write-combined. */
static volatile uint64_t *combined;

static void *count(void *arg)
{
	for (;;) {
		++*combined;
		usleep(100);
	}
	return arg;
}

static int write_combined(void)
{
	unsigned int flags = 0;
	pthread_t thread;
	int rc = cuMemHostAlloc((void **)&combined, 8, CU_MEMHOSTALLOC_WRITECOMBINED);

	rc |= cuMemHostGetFlags(&flags, (void *)combined);
	return rc | pthread_create(&thread, NULL, count, NULL) |
	       !(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
}

static int new_context(void)
{
	CUcontext second;

	return cuCtxCreate(&second, NULL, 0, 0) | cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096) |
	       cuStreamCreate(&stream, 0);
}

static int run(const char *word)
{
	if (!strcmp(word, "init")) return init();
	if (!strcmp(word, "sum")) return sum();
	if (!strcmp(word, "more")) return more();
	if (!strcmp(word, "less")) return cuMemFree(large);
	if (!strncmp(word, "close ", 6)) return close(atoi(word + 6));
	if (!strcmp(word, "query")) return cuStreamQuery(stream);
	if (!strcmp(word, "spin")) return spin(stream);
	if (!strcmp(word, "stop")) { *flag = 1; return 0; }
	if (!strcmp(word, "waiter")) return start_waiter();
	if (!strcmp(word, "lockstep")) return lockstep();
	if (!strcmp(word, "destroyed")) return spin_and_destroy();
	if (!strcmp(word, "stack")) return stack();
	if (!strcmp(word, "context")) return new_context();
	if (!strcmp(word, "capture"))
		return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	if (!strcmp(word, "captured")) return end_capture();
	if (!strcmp(word, "blocking")) return cuStreamCreate(&stream, 0);
	if (!strcmp(word, "managed"))
		return cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL);
	if (!strcmp(word, "unmanaged")) return cuMemFree(managed);
	if (!strcmp(word, "in order")) return cuMemFreeAsync(managed, stream);
	if (!strcmp(word, "event")) return open_event();
	if (!strcmp(word, "host")) return host_memory();
	if (!strcmp(word, "variable")) return variable();
	if (!strcmp(word, "unload")) return cuModuleUnload(module);
	if (!strcmp(word, "combined")) return write_combined();
	if (!strcmp(word, "future")) return future();
	if (!strcmp(word, "opengl")) return use_opengl();
	return -99;
}

int main(void)
{
	char line[64];

	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		printf("%d\n", run(line));
		fflush(stdout);
	}
	return 0;
}
