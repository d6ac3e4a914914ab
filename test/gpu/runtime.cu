// SPDX-License-Identifier: Apache-2.0
// A program of the CUDA runtime, with gpu_namespace.so and gpu_engine.so preloaded: between its
// rounds the driver is loaded anew, if GPU_RESTARTS is set. Its last line is a sum of all answers.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>

#include <cuda_runtime.h>

#define N 4096
#define MUST(call) check(call, #call)

static void check(cudaError_t e, const char *what)
{
	if (!e)
		return;
	printf("%s: %s\n", what, cudaGetErrorString(e));
	exit(1);
}

__device__ unsigned long long total;
__device__ unsigned long long *where; // of total
__constant__ int factor[4];
static __device__ unsigned hidden;

__global__ void work(unsigned *p, cudaTextureObject_t texture)
{
	extern __shared__ unsigned shared[];
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	shared[threadIdx.x] = p[i];
	__syncthreads();
	p[i] = shared[(threadIdx.x + 1) % blockDim.x] * 3 + factor[i % 4] +
	       (unsigned)tex2D<float>(texture, i % 64, i / 64);
	atomicAdd(&total, (unsigned long long)p[i]);
	if (i == 0) {
		where = &total;
		hidden++;
	}
}

__global__ void look(unsigned long long *out)
{
	out[0] = *where;
	out[1] = hidden;
}

__global__ void count(unsigned long long *p, unsigned long long by)
{
	*p = *p * 3 + by;
}

static cudaArray_t array;
static cudaTextureObject_t texture;

static void make_texture()
{
	static float content[64 * 64];
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaResourceDesc resource = {};
	cudaTextureDesc how = {};

	for (int i = 0; i < 64 * 64; i++)
		content[i] = (float)(i % 97);
	MUST(cudaMallocArray(&array, &format, 64, 64));
	MUST(cudaMemcpy2DToArray(array, 0, 0, content, 64 * 4, 64 * 4, 64, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	MUST(cudaCreateTextureObject(&texture, &resource, &how, NULL));
}

static unsigned *data, *pinned;
static cudaStream_t streams[2];
static cudaEvent_t events[2];
static unsigned long long *seen, sum;

// Graphs: of one the program has the nodes, of the other only what was instantiated.
static cudaGraph_t graph;
static cudaGraphNode_t kernel;
static cudaGraphExec_t executable, alone;
static unsigned long long *counters, called;

static void call(void *number)
{
	*(unsigned long long *)number += 3;
}

static cudaGraph_t capture(unsigned long long *at)
{
	cudaGraph_t captured;

	MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
	MUST(cudaMemsetAsync(at + 1, 1, sizeof *at, streams[0]));
	count<<<1, 1, 0, streams[0]>>>(at, 5);
	MUST(cudaMemcpyAsync(at + 2, at, sizeof *at, cudaMemcpyDeviceToDevice, streams[0]));
	MUST(cudaEventRecord(events[0], streams[0]));
	MUST(cudaStreamWaitEvent(streams[1], events[0], 0));
	count<<<1, 1, 0, streams[1]>>>(at + 1, 7);
	MUST(cudaEventRecord(events[1], streams[1]));
	MUST(cudaStreamWaitEvent(streams[0], events[1], 0));
	MUST(cudaLaunchHostFunc(streams[0], call, &called));
	MUST(cudaStreamEndCapture(streams[0], &captured));
	return captured;
}

// Whether the graph still has the kernel's node by its handle; before, the handle of one.
static bool has_kernel()
{
	cudaGraphNode_t nodes[16];
	size_t n = 16;

	MUST(cudaGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n; i++) {
		cudaGraphNodeType type;

		MUST(cudaGraphNodeGetType(nodes[i], &type));
		if (type == cudaGraphNodeTypeKernel && (!kernel || kernel == nodes[i])) {
			kernel = nodes[i];
			return true;
		}
	}
	return false;
}

static void make_graphs()
{
	cudaGraph_t gone;

	MUST(cudaMalloc(&counters, 6 * sizeof *counters));
	MUST(cudaMemset(counters, 0, 6 * sizeof *counters));
	graph = capture(counters);
	kernel = NULL;
	MUST(cudaGraphInstantiate(&executable, graph, 0));
	gone = capture(counters + 3);
	MUST(cudaGraphInstantiate(&alone, gone, 0));
	MUST(cudaGraphDestroy(gone));
}

// The first graph's kernel is changed, the second one is updated by a capture, both run twice.
static void run_graphs()
{
	unsigned long long v[6], by = 11 + sum % 5, *at = counters;
	void *arguments[] = {&at, &by};
	cudaKernelNodeParams params = {};
	cudaGraphExecUpdateResultInfo info;
	cudaGraph_t again = capture(counters + 3);

	params.func = (void *)count;
	params.gridDim = params.blockDim = dim3(1);
	params.kernelParams = arguments;
	sum += has_kernel();
	MUST(cudaGraphExecKernelNodeSetParams(executable, kernel, &params));
	MUST(cudaGraphExecUpdate(alone, again, &info));
	MUST(cudaGraphDestroy(again));
	for (int i = 0; i < 2; i++) {
		MUST(cudaGraphLaunch(executable, streams[i]));
		MUST(cudaGraphLaunch(alone, streams[i]));
		MUST(cudaStreamSynchronize(streams[i]));
	}
	MUST(cudaMemcpy(v, counters, sizeof v, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 6; i++)
		sum = sum * 31 + v[i];
	sum += called;
}

static void make_all()
{
	const int f[4] = {1, 2, 3, 4};

	MUST(cudaMalloc(&data, N * sizeof *data));
	MUST(cudaMemset(data, 1, N * sizeof *data));
	MUST(cudaMalloc(&seen, 2 * sizeof *seen));
	MUST(cudaHostAlloc(&pinned, N * sizeof *pinned, cudaHostAllocMapped));
	MUST(cudaMemcpyToSymbol(factor, f, sizeof f));
	MUST(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
	for (int i = 0; i < 2; i++) {
		MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
		MUST(cudaEventCreate(&events[i]));
	}
	make_texture();
	make_graphs();
}

// Needs the attribute: more shared memory than a kernel has by default.
static void run(int stream)
{
	unsigned long long v[2];
	void *other;

	MUST(cudaEventRecord(events[0], streams[stream]));
	work<<<N / 256, 256, 60 << 10, streams[stream]>>>(data, texture);
	MUST(cudaGetLastError());
	look<<<1, 1, 0, streams[stream]>>>(seen);
	MUST(cudaMemcpyAsync(pinned, data, N * sizeof *data, cudaMemcpyDeviceToHost,
			     streams[stream]));
	MUST(cudaEventRecord(events[1], streams[stream]));
	MUST(cudaStreamSynchronize(streams[stream]));
	MUST(cudaMemcpy(v, seen, sizeof v, cudaMemcpyDeviceToHost));
	MUST(cudaMallocAsync(&other, 1 << 20, streams[stream]));
	MUST(cudaFreeAsync(other, streams[stream]));
	MUST(cudaStreamSynchronize(streams[stream]));
	sum = sum * 31 + v[0] + v[1] + pinned[sum % N];
}

static bool restart()
{
	int (*again)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gpu_engine_restart");

	return !getenv("GPU_RESTARTS") || (again && !again());
}

// Ends the primary context, and all that is in it. After that there is no restart: mappings are
// steered by their order only, and those of what has ended are not made again.
static void begin_anew()
{
	MUST(cudaFreeHost(pinned));
	MUST(cudaGraphExecDestroy(executable));
	MUST(cudaGraphExecDestroy(alone));
	MUST(cudaGraphDestroy(graph));
	MUST(cudaDeviceReset());
	make_all();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;

	make_all();
	for (int i = 0; i < rounds; i++) {
		run(i % 2);
		run_graphs();
		if (!restart())
			return 1;
		run_graphs();
		if (i == rounds - 1)
			begin_anew();
		std::thread(run, 1 - i % 2).join();
		run(i % 2);
	}
	printf("sum %llu\n", sum);
	return 0;
}
