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
	MUST(cudaDeviceReset());
	make_all();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;

	make_all();
	for (int i = 0; i < rounds; i++) {
		run(i % 2);
		if (!restart())
			return 1;
		if (i == rounds - 1)
			begin_anew();
		std::thread(run, 1 - i % 2).join();
		run(i % 2);
	}
	printf("sum %llu\n", sum);
	return 0;
}
