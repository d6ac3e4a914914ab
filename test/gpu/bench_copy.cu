/* SPDX-License-Identifier: Apache-2.0
 * The rate of copies from the device while a program works on it: through a ring of pinned shared
 * memory, at the lowest priority, while a kernel needs all the device's bandwidth. Also the rate of
 * copies back. */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>

#define SLOTS 8
#define CHUNK (32 * MIB)
#define WORK (4 * GIB)
#define SOURCE (16 * GIB)

static char *ring, *source;
static float4 *a, *b, *c;
static cudaStream_t program, background;

__global__ static void triad(float4 *x, const float4 *y, const float4 *z, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		x[i] = make_float4(y[i].x + 2 * z[i].x, y[i].y + 2 * z[i].y, y[i].z + 2 * z[i].z,
				   y[i].w + 2 * z[i].w);
}

static void start(void)
{
	int lowest, highest, fd = memfd_create("ring", MFD_CLOEXEC);

	CHECK(!ftruncate(fd, SLOTS * CHUNK));
	ring = (char *)mmap(NULL, SLOTS * CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    fd, 0);
	MUST(cuMemHostRegister(ring, SLOTS * CHUNK, 0));
	MUST(cudaMalloc(&source, SOURCE));
	MUST(cudaMalloc(&a, WORK));
	MUST(cudaMalloc(&b, WORK));
	MUST(cudaMalloc(&c, WORK));
	MUST(cudaMemset(source, 1, SOURCE));
	MUST(cudaMemset(b, 0, WORK));
	MUST(cudaMemset(c, 0, WORK));
	MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
	MUST(cudaStreamCreate(&program));
	MUST(cudaStreamCreateWithPriority(&background, cudaStreamNonBlocking, lowest));
}

/* GB/s. A slot is used again when its last copy has ended. */
static double move(size_t bytes, cudaMemcpyKind kind)
{
	cudaEvent_t there[SLOTS];
	double begin = gpu_ms();

	for (int i = 0; i < SLOTS; i++)
		MUST(cudaEventCreateWithFlags(&there[i], cudaEventDisableTiming));
	for (size_t i = 0; i < bytes / CHUNK; i++) {
		char *slot = ring + i % SLOTS * CHUNK, *data = source + i * CHUNK % SOURCE;

		MUST(cudaEventSynchronize(there[i % SLOTS]));
		MUST(cudaMemcpyAsync(kind == cudaMemcpyDeviceToHost ? slot : data,
				     kind == cudaMemcpyDeviceToHost ? data : slot, CHUNK, kind,
				     background));
		MUST(cudaEventRecord(there[i % SLOTS], background));
	}
	MUST(cudaStreamSynchronize(background));
	for (int i = 0; i < SLOTS; i++)
		MUST(cudaEventDestroy(there[i]));
	return (double)bytes / (gpu_ms() - begin) / 1e6;
}

int main(void)
{
	const int turns = 400; /* about 1.2 s */
	cudaEvent_t first, last;
	double rate = 0;
	float ms[2];

	gpu_init();
	start();
	MUST(cudaEventCreate(&first));
	MUST(cudaEventCreate(&last));
	for (int with = -1; with < 2; with++) { /* once to warm up */
		MUST(cudaEventRecord(first, program));
		for (int i = 0; i < turns; i++)
			triad<<<132 * 8, 256, 0, program>>>(a, b, c, WORK / sizeof *a);
		MUST(cudaEventRecord(last, program));
		while (with == 1 && cudaStreamQuery(program) == cudaErrorNotReady)
			rate = move(SOURCE, cudaMemcpyDeviceToHost);
		MUST(cudaStreamSynchronize(program));
		MUST(cudaEventElapsedTime(&ms[with == 1], first, last));
	}
	gpu_figure("kernel_bandwidth", 3.0 * WORK * turns / ms[0] / 1e6, "GB/s");
	gpu_figure("drain_rate_busy", rate, "GB/s");
	gpu_figure("kernel_slowdown", 100 * (ms[1] / ms[0] - 1), "%");
	gpu_figure("drain_rate", move(4 * SOURCE, cudaMemcpyDeviceToHost), "GB/s");
	gpu_figure("fill_rate", move(4 * SOURCE, cudaMemcpyHostToDevice), "GB/s");
	return 0;
}
