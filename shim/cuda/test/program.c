/* SPDX-License-Identifier: Apache-2.0
 * A program that uses the driver API, linked with libcuda.so.1: it sees the same on the fake driver
 * alone and under the stand-in. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"
#include "test/support/tap.h"

#define N 100000

static CUcontext context;
static CUmodule module;

static void is_ok(CUresult rc, const char *name)
{
	is_int(rc, CUDA_SUCCESS, name);
}

static CUfunction kernel(const char *name)
{
	CUfunction f = NULL;

	if (cuModuleGetFunction(&f, module, name))
		printf("# no kernel %s\n", name);
	return f;
}

static void launch(CUstream stream, const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	void *params[] = {&a, &b, &c};
	CUresult rc = cuLaunchKernel(kernel(name), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);

	if (rc)
		is_ok(rc, name);
}

static void devices(void)
{
	CUdevice device;
	size_t available, total;
	int n;

	is_int(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED, "nothing works before cuInit");
	is_ok(cuInit(0), "cuInit");
	is_ok(cuDeviceGetCount(&n), "cuDeviceGetCount");
	is_int(n, 1, "one device");
	is_ok(cuDeviceGet(&device, 0), "cuDeviceGet");
	is_ok(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	is_ok(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	is_ok(cuMemGetInfo(&available, &total), "cuMemGetInfo");
	ok(all_of(available, available <= total), "there is memory");
	is_ok(cuModuleLoadData(&module, ""), "cuModuleLoadData");
}

static void memory(void)
{
	static uint32_t out[N], in[N];
	CUdeviceptr a, b, base;
	size_t size, before, after, total;
	CUmemorytype type;

	cuMemGetInfo(&before, &total);
	is_ok(cuMemAlloc(&a, sizeof out), "cuMemAlloc");
	is_ok(cuMemAlloc(&b, sizeof out), "another cuMemAlloc");
	is_ok(cuMemGetAddressRange(&base, &size, a + 1000), "cuMemGetAddressRange");
	ok(all_of(base == a, size == sizeof out), "an address inside of memory has its range");
	is_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a),
	      "cuPointerGetAttribute");
	is_int(type, CU_MEMORYTYPE_DEVICE, "its type is device memory");
	for (uint32_t i = 0; i < N; i++)
		out[i] = i * 7;
	is_ok(cuMemcpyHtoD(a, out, sizeof out), "cuMemcpyHtoD");
	is_ok(cuMemcpyDtoD(b, a, sizeof out), "cuMemcpyDtoD");
	is_ok(cuMemsetD32(a, 5, N), "cuMemsetD32");
	is_ok(cuMemcpyDtoH(in, b, sizeof in), "cuMemcpyDtoH");
	ok(!memcmp(in, out, sizeof in), "the copies have the data");
	is_ok(cuMemcpyDtoH(in, a, sizeof in), "cuMemcpyDtoH");
	ok(all_of(in[0] == 5, in[N - 1] == 5), "the fill has the value");
	is_ok(cuMemFree(a), "cuMemFree");
	is_ok(cuMemFree(b), "cuMemFree");
	is_int(cuMemFree(b), CUDA_ERROR_INVALID_VALUE, "a second cuMemFree is refused");
	cuMemGetInfo(&after, &total);
	ok(before == after, "all memory is free again");
	is_int(cuMemAlloc(&a, total + 1), CUDA_ERROR_OUT_OF_MEMORY,
	       "more than the device has is refused");
}

static void *set_flag(void *arg)
{
	usleep(20000);
	*(volatile uint64_t *)arg = 1;
	return NULL;
}

static void streams(void)
{
	CUstream one, two;
	CUdeviceptr at;
	CUevent event;
	uint64_t *flag, value = 0;
	pthread_t thread;

	is_ok(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	is_ok(cuStreamCreateWithPriority(&two, CU_STREAM_NON_BLOCKING, -1),
	      "cuStreamCreateWithPriority");
	is_ok(cuEventCreate(&event, 0), "cuEventCreate");
	is_ok(cuMemAllocHost((void **)&flag, 8), "cuMemAllocHost");
	is_ok(cuMemAlloc(&at, 8), "cuMemAlloc");
	cuMemsetD8(at, 0, 8);
	cuCtxSynchronize();
	*flag = 0;
	launch(one, "wait_flag", (uintptr_t)flag, 0, 0);
	launch(one, "add", at, 40, 0);
	is_ok(cuEventRecord(event, one), "cuEventRecord");
	is_ok(cuStreamWaitEvent(two, event, 0), "cuStreamWaitEvent");
	launch(two, "add", at, 2, 0);
	is_int(cuStreamQuery(one), CUDA_ERROR_NOT_READY,
	       "a stream that waits for the host is busy");
	is_int(cuStreamQuery(two), CUDA_ERROR_NOT_READY, "a stream that waits for it is busy");
	is_int(cuEventQuery(event), CUDA_ERROR_NOT_READY, "the event is not reached");
	pthread_create(&thread, NULL, set_flag, flag);
	is_ok(cuStreamSynchronize(two), "cuStreamSynchronize");
	is_ok(cuEventQuery(event), "the event is reached");
	is_ok(cuMemcpyDtoH(&value, at, 8), "cuMemcpyDtoH");
	is_int((long long)value, 42, "both kernels ran");
	pthread_join(thread, NULL);
	is_ok(cuStreamDestroy(one), "cuStreamDestroy");
	is_int(cuStreamQuery(one), CUDA_ERROR_INVALID_HANDLE, "the destroyed stream is refused");
	is_ok(cuStreamDestroy(two), "cuStreamDestroy");
	is_ok(cuEventDestroy(event), "cuEventDestroy");
	is_ok(cuMemFreeHost(flag), "cuMemFreeHost");
	is_ok(cuMemFree(at), "cuMemFree");
}

static void called(void *arg)
{
	++*(int *)arg;
}

/* The default stream and a blocking one wait for each other. */
static void order(void)
{
	CUstream stream;
	CUdeviceptr at;
	uint64_t *flag, value = 0;
	pthread_t thread;
	int calls = 0;

	cuMemAlloc(&at, 8);
	cuMemAllocHost((void **)&flag, 8);
	cuMemsetD8(at, 0, 8);
	cuCtxSynchronize();
	cuStreamCreate(&stream, 0);
	*flag = 0;
	launch(stream, "wait_flag", (uintptr_t)flag, 0, 0);
	launch(stream, "add", at, 1, 0);
	is_ok(cuLaunchHostFunc(stream, called, &calls), "cuLaunchHostFunc");
	pthread_create(&thread, NULL, set_flag, flag);
	is_ok(cuMemcpyDtoH(&value, at, 8), "a copy on the default stream");
	ok(all_of(value == 1, calls == 1), "it waited for a blocking stream");
	pthread_join(thread, NULL);
	cuStreamDestroy(stream);
	cuMemFree(at);
	cuMemFreeHost(flag);
}

static void graphs(void)
{
	CUstreamCaptureStatus status;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr at;
	uint64_t value = 0;

	cuMemAlloc(&at, 8);
	cuMemsetD8(at, 0, 8);
	cuCtxSynchronize();
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	is_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
	launch(stream, "add", at, 3, 0);
	launch(stream, "add", at, 4, 0);
	is_ok(cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
	is_int(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "the stream is in capture");
	is_ok(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
	is_ok(cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
	is_ok(cuGraphLaunch(exec, stream), "cuGraphLaunch");
	is_ok(cuGraphLaunch(exec, stream), "cuGraphLaunch again");
	is_ok(cuStreamSynchronize(stream), "cuStreamSynchronize");
	cuMemcpyDtoH(&value, at, 8);
	is_int((long long)value, 14, "the graph ran twice, its capture did nothing");
	is_ok(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
	is_ok(cuGraphDestroy(graph), "cuGraphDestroy");
	cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	is_int(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       "cuStreamSynchronize is refused in capture");
	cuStreamEndCapture(stream, &graph);
	cuStreamDestroy(stream);
	cuMemFree(at);
}

static void vmm(void)
{
	const size_t size = 4 << 20;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr at, other;
	uint64_t value = 0;
	int fd;

	is_ok(cuMemAddressReserve(&at, size, 0, 0x500000000000, 0), "cuMemAddressReserve");
	ok(at == 0x500000000000, "the address is the requested one");
	is_ok(cuMemCreate(&handle, size, &prop, 0), "cuMemCreate");
	is_ok(cuMemMap(at, size, 0, handle, 0), "cuMemMap");
	is_int(cuMemMap(at, size, 0, handle, 0), CUDA_ERROR_INVALID_VALUE,
	       "a second cuMemMap there is refused");
	is_ok(cuMemSetAccess(at, size, &access, 1), "cuMemSetAccess");
	is_ok(cuMemsetD32(at, 9, 1), "cuMemsetD32");
	cuCtxSynchronize(); /* before it is unmapped: a fill only begins */
	is_ok(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0),
	      "cuMemExportToShareableHandle");
	is_ok(cuMemUnmap(at, size), "cuMemUnmap");
	is_ok(cuMemRelease(handle), "cuMemRelease");
	is_ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "cuMemImportFromShareableHandle");
	is_ok(cuMemMap(at, size, 0, again, 0), "it is mapped there again");
	cuMemSetAccess(at, size, &access, 1);
	is_ok(cuMemcpyDtoH(&value, at, 4), "cuMemcpyDtoH");
	is_int((long long)value, 9, "it has its contents");
	is_int(cuMemAddressFree(at, size), CUDA_ERROR_INVALID_VALUE,
	       "cuMemAddressFree of mapped addresses is refused");
	cuMemUnmap(at, size);
	cuMemRelease(again);
	close(fd);
	is_ok(cuMemAddressFree(at, size), "cuMemAddressFree of unmapped addresses");
	is_ok(cuMemAddressReserve(&other, size, 0, 0, 0), "cuMemAddressReserve anywhere");
	cuMemAddressFree(other, size);
}

int main(void)
{
	devices();
	memory();
	streams();
	order();
	graphs();
	vmm();
	is_ok(cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
	return tap_done();
}
