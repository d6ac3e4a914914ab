// SPDX-License-Identifier: Apache-2.0
// A program of the CUDA runtime, with gpu_namespace.so and gpu_engine.so preloaded: between its
// rounds the driver is loaded anew, if GPU_RESTARTS is set. Its last line is a sum of all answers.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>

#include <unistd.h>

#include <cuda.h>
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

// Managed memory, levels of a mipmapped array, a texture of memory, a pool, and a graph that writes
// a value and holds an object, which has ended once at the end.
#define LEVELS 3
#define THRESHOLD (64ull << 20)

static unsigned long long *managed, *word;
static cudaMipmappedArray_t mipmap;
static cudaTextureObject_t levels, linear;
static cudaMemPool_t pool;
static cudaGraphExec_t holder;
static int ends;

__global__ void look_at_others(unsigned long long *out, cudaTextureObject_t levels,
			       cudaTextureObject_t linear, const unsigned long long *word)
{
	for (int i = 0; i < LEVELS; i++)
		*out = *out * 7 + (unsigned)tex2DLod<float>(levels, 0.5f, 0.5f, (float)i);
	*out += tex1Dfetch<unsigned>(linear, 3) + *word;
}

static void ended(void *)
{
	ends++;
}

static void fill_level(int level)
{
	static float content[16 * 16];
	cudaArray_t array;

	for (int i = 0; i < 16 * 16; i++)
		content[i] = (float)(10 * level + 3);
	MUST(cudaGetMipmappedArrayLevel(&array, mipmap, level));
	MUST(cudaMemcpy2DToArray(array, 0, 0, content, (16 >> level) * 4, (16 >> level) * 4,
				 16 >> level, cudaMemcpyHostToDevice));
}

static void make_levels()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaResourceDesc resource = {};
	cudaTextureDesc how = {};

	MUST(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(16, 16, 0), LEVELS));
	for (int i = 0; i < LEVELS; i++)
		fill_level(i);
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = mipmap;
	how.normalizedCoords = 1;
	how.maxMipmapLevelClamp = LEVELS;
	MUST(cudaCreateTextureObject(&levels, &resource, &how, NULL));
	resource = {};
	how = {};
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = data;
	resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
	resource.res.linear.sizeInBytes = 64;
	MUST(cudaCreateTextureObject(&linear, &resource, &how, NULL));
}

static void make_pool()
{
	cudaMemPoolProps about = {};
	unsigned long long threshold = THRESHOLD;

	about.allocType = cudaMemAllocationTypePinned;
	about.location.type = cudaMemLocationTypeDevice;
	MUST(cudaMemPoolCreate(&pool, &about));
	MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	MUST(cudaDeviceSetMemPool(0, pool));
}

template <typename F> static F *driver_function(const char *name)
{
	cudaDriverEntryPointQueryResult found;
	void *f = NULL;

	MUST(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found));
	return (F *)f;
}

static void make_holder()
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS values = {};
	CUstreamBatchMemOpParams value = {};
	CUgraphNode node;
	cudaUserObject_t object;
	cudaGraph_t graph;

	value.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	value.writeValue.address = (CUdeviceptr)word;
	value.writeValue.value64 = 4711;
	values.count = 1;
	values.paramArray = &value;
	MUST((cudaError_t)driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent")(
		&values.ctx));
	MUST(cudaGraphCreate(&graph, 0));
	MUST((cudaError_t)driver_function<decltype(cuGraphAddBatchMemOpNode)>(
		"cuGraphAddBatchMemOpNode")(&node, graph, NULL, 0, &values));
	MUST(cudaUserObjectCreate(&object, &ends, ended, 1, cudaUserObjectNoDestructorSync));
	MUST(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
	MUST(cudaGraphInstantiate(&holder, graph, 0));
	MUST(cudaGraphDestroy(graph));
}

static void make_others()
{
	MUST(cudaMallocManaged(&managed, N * sizeof *managed));
	MUST(cudaMalloc(&word, sizeof *word));
	memset(managed, 0, N * sizeof *managed);
	make_levels();
	make_pool();
	make_holder();
}

static void run_others()
{
	unsigned long long threshold = 0;
	cudaMemPool_t present;

	managed[1] += sum % 7;
	MUST(cudaMemset(word, 0, sizeof *word));
	MUST(cudaGraphLaunch(holder, streams[0]));
	look_at_others<<<1, 1, 0, streams[0]>>>(managed, levels, linear, word);
	count<<<1, 1, 0, streams[0]>>>(managed + 1, 5);
	MUST(cudaGetLastError());
	MUST(cudaStreamSynchronize(streams[0]));
	MUST(cudaDeviceGetMemPool(&present, 0));
	MUST(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	sum = sum * 31 + managed[0] + managed[1] + (present == pool) + threshold + ends;
}

static void end_others()
{
	cudaMemPool_t own;

	MUST(cudaGraphExecDestroy(holder));
	for (int ms = 0; ms < 1000 && !ends; ms++)
		usleep(1000);
	usleep(10000);
	sum = sum * 31 + ends;
	ends = 0;
	MUST(cudaDeviceGetDefaultMemPool(&own, 0));
	MUST(cudaDeviceSetMemPool(0, own));
	MUST(cudaMemPoolDestroy(pool));
	MUST(cudaFree(managed));
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
	make_others();
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
	end_others();
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
		run_others();
		if (!restart())
			return 1;
		run_graphs();
		run_others();
		if (i == rounds - 1)
			begin_anew();
		std::thread(run, 1 - i % 2).join();
		run(i % 2);
	}
	printf("sum %llu\n", sum);
	return 0;
}
