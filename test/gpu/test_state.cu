/* SPDX-License-Identifier: Apache-2.0
 * State that the driver's own checkpoint preserves, with the stack shrunk. */
#include "driver.h"

#include <cooperative_groups.h>
#include <string.h>

static cudaStream_t stream;
static int *number;

__device__ static int global = 5;
__device__ static int *heap;
__constant__ static int constant[16];

__global__ static void add(int *p, int k)
{
	atomicAdd(p, k);
}

static void start(void)
{
	MUST(cudaMalloc(&number, sizeof *number));
	MUST(cudaMemset(number, 0, sizeof *number));
	MUST(cudaStreamCreate(&stream));
}

static int value(void)
{
	int v = -1;

	MUST(cudaMemcpy(&v, number, sizeof v, cudaMemcpyDeviceToHost));
	return v;
}

static void CUDART_CB called(void *times)
{
	++*(volatile int *)times;
}

static void graph(void)
{
	static int times;
	cudaGraphExec_t exec, other;
	cudaGraph_t g;

	start();
	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	add<<<1, 32, 0, stream>>>(number, 1);
	MUST(cudaLaunchHostFunc(stream, called, &times));
	add<<<1, 32, 0, stream>>>(number, 1);
	MUST(cudaStreamEndCapture(stream, &g));
	MUST(cudaGraphInstantiate(&exec, g, 0));
	for (int round = 1; round < 3; round++) {
		CHECK(gpu_self_checkpoint(NULL));
		MUST(cudaGraphLaunch(exec, stream));
		MUST(cudaStreamSynchronize(stream));
		CHECK(value() == 64 * round && times == round);
	}
	MUST(cudaGraphInstantiate(&other, g, 0));
}

__global__ static void make_heap(void)
{
	heap = (int *)malloc(4096);
	for (int i = 0; i < 1024; i++)
		heap[i] = 3 * i;
}

__global__ static void sum_heap(int *p)
{
	*p = 0;
	for (int i = 0; i < 1024; i++)
		*p += heap[i];
}

__global__ static void deep(int *p, int n)
{
	volatile int a[2000];

	for (int i = 0; i < 2000; i++)
		a[i] = i * n;
	atomicAdd(p, a[(n * 7) % 2000]);
}

/* Globals, constants, the device heap, and a stack of 8 KiB. */
static void module(void)
{
	int numbers[16], back[16], v;
	size_t before, after;

	for (int i = 0; i < 16; i++)
		numbers[i] = i * i;
	start();
	make_heap<<<1, 1>>>();
	MUST(cudaMemcpyToSymbol(constant, numbers, sizeof numbers));
	MUST(cudaMemcpyToSymbol(global, &numbers[7], sizeof(int)));
	deep<<<64, 128>>>(number, 1);
	MUST(cudaDeviceSynchronize());
	MUST(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
	CHECK(gpu_self_checkpoint(NULL));
	MUST(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE));
	CHECK(before == after && before >= 8000);
	MUST(cudaMemcpyFromSymbol(back, constant, sizeof back));
	MUST(cudaMemcpyFromSymbol(&v, global, sizeof v));
	CHECK(!memcmp(back, numbers, sizeof back) && v == 49);
	sum_heap<<<1, 1>>>(number);
	CHECK(value() == 3 * 1023 * 512);
	MUST(cudaMemset(number, 0, sizeof *number));
	deep<<<64, 128>>>(number, 1);
	CHECK(value() == 64 * 128 * 7);
}

__global__ static void read_texture(cudaTextureObject_t t, float *out)
{
	out[threadIdx.x] = tex2D<float>(t, threadIdx.x + .5f, 3.5f);
}

__global__ static void write_surface(cudaSurfaceObject_t s)
{
	surf2Dwrite(100.f + threadIdx.x, s, threadIdx.x * 4, 3);
}

static void texture(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaResourceDesc resource = {};
	cudaTextureDesc how = {};
	cudaTextureObject_t t;
	cudaSurfaceObject_t s;
	cudaArray_t array;
	float in[64 * 64], *out, back[64];

	for (int i = 0; i < 64 * 64; i++)
		in[i] = (float)i;
	MUST(cudaMallocArray(&array, &format, 64, 64, cudaArraySurfaceLoadStore));
	MUST(cudaMemcpy2DToArray(array, 0, 0, in, 256, 256, 64, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	MUST(cudaCreateTextureObject(&t, &resource, &how, NULL));
	MUST(cudaCreateSurfaceObject(&s, &resource));
	MUST(cudaMalloc(&out, sizeof back));
	CHECK(gpu_self_checkpoint(NULL));
	read_texture<<<1, 64>>>(t, out);
	MUST(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
	CHECK(back[5] == 3 * 64 + 5);
	write_surface<<<1, 64>>>(s);
	read_texture<<<1, 64>>>(t, out);
	MUST(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
	CHECK(back[5] == 105);
}

__global__ static void cooperate(int *p)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();

	atomicAdd(p, 1);
	grid.sync();
	if (grid.thread_rank() == 0)
		atomicAdd(p, 1000000);
}

static void cooperative(void)
{
	void *args[] = {&number};

	start();
	CHECK(gpu_self_checkpoint(NULL));
	MUST(cudaLaunchCooperativeKernel((void *)cooperate, dim3(64), dim3(64), args, 0, 0));
	CHECK(value() == 1004096);
}

static void events_and_pools(void)
{
	cudaEvent_t first, second;
	float before, after;
	int *pooled, v;

	start();
	MUST(cudaEventCreate(&first));
	MUST(cudaEventCreate(&second));
	MUST(cudaMallocAsync((void **)&pooled, 64 * MIB, stream));
	MUST(cudaEventRecord(first, stream));
	MUST(cudaMemsetAsync(pooled, 1, 64 * MIB, stream));
	MUST(cudaEventRecord(second, stream));
	MUST(cudaStreamSynchronize(stream));
	MUST(cudaEventElapsedTime(&before, first, second));
	CHECK(gpu_self_checkpoint(NULL));
	MUST(cudaEventElapsedTime(&after, first, second));
	MUST(cudaMemcpy(&v, pooled, sizeof v, cudaMemcpyDeviceToHost));
	CHECK(before == after && v == 0x01010101);
}

static const struct gpu_case cases[] = {
	{"graph", graph},
	{"module", module},
	{"texture", texture},
	{"cooperative", cooperative},
	{"events_and_pools", events_and_pools},
};

int main(int argc, char **argv)
{
	return gpu_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
