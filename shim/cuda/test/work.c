/* SPDX-License-Identifier: Apache-2.0
 * A program that computes on the fake driver for a while, with all that a restart has to bring back:
 * streams, events, graphs, host functions, pinned memory that a thread of its own counts in, two
 * contexts. Prints the same line whenever it was stopped in between. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"

#define ROUNDS 400
#define COUNTS 3000

static _Atomic uint64_t *pinned;
static uint64_t calls;

#define CHECK(call) check(call, #call)

static void check(CUresult rc, const char *call)
{
	if (rc == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", call, rc);
	fflush(stdout);
	_exit(3);
}

static void *count(void *arg)
{
	for (int i = 0; i < COUNTS; i++) {
		atomic_fetch_add(pinned, 1);
		usleep(1000);
	}
	return arg;
}

static void called(void *arg)
{
	++*(uint64_t *)arg;
}

static void launch_add(CUmodule module, CUstream stream, CUdeviceptr at, uint64_t value)
{
	void *params[] = {&at, &value};
	CUfunction f;

	CHECK(cuModuleGetFunction(&f, module, "add"));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static CUgraphExec graph_of(CUmodule module, CUstream stream, CUdeviceptr at)
{
	CUgraphExec exec;
	CUgraph graph;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch_add(module, stream, at, 100);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	return exec;
}

int main(void)
{
	CUdeviceptr sum, other;
	CUcontext context, second;
	CUstream one, two;
	CUgraphExec graph;
	CUmodule module;
	CUevent event;
	pthread_t thread;
	uint64_t a, b;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxCreate(&second, NULL, 0, 0));
	CHECK(cuMemAlloc(&other, 1 << 20));
	CHECK(cuMemsetD8(other, 1, 1 << 20));
	CHECK(cuCtxSynchronize()); /* of this context: the other one uses it, too */
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ""));
	CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, 0));
	CHECK(cuMemAlloc(&sum, 8));
	CHECK(cuMemsetD8(sum, 0, 8));
	CHECK(cuMemAllocHost((void **)&pinned, 8));
	CHECK(cuCtxSynchronize());
	graph = graph_of(module, one, sum);
	pthread_create(&thread, NULL, count, NULL);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		launch_add(module, one, sum, i);
		CHECK(cuGraphLaunch(graph, one));
		CHECK(cuEventRecord(event, one));
		CHECK(cuStreamWaitEvent(two, event, 0));
		launch_add(module, two, sum, 1);
		CHECK(cuLaunchHostFunc(two, called, &calls));
		CHECK(cuEventRecord(event, two));
		CHECK(cuStreamWaitEvent(one, event, 0));
		launch_add(module, two, other, 1);
		usleep(5000);
	}
	CHECK(cuCtxSynchronize());
	pthread_join(thread, NULL);
	CHECK(cuMemcpyDtoH(&a, sum, 8));
	CHECK(cuMemcpyDtoH(&b, other, 8));
	printf("sum %llu, other %llu, calls %llu, pinned %llu\n", (unsigned long long)a,
	       (unsigned long long)b, (unsigned long long)calls, (unsigned long long)*pinned);
	return 0;
}
