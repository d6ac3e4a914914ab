/* SPDX-License-Identifier: Apache-2.0
 * A program with the static CUDA runtime for gpu_lineage: `work ROUNDS MIB [slabs] [managed[=MIB]]
 * [pool] [vmm] [heap] [pinned=MIB]`. It has streams and events, a graph, a texture and a surface, a
 * `__device__` global, printf of kernels, and pinned memory that a CPU thread increments. slabs:
 * its data is on a slab that is unmapped during a checkpoint. managed: it also has managed memory,
 * in which the CPU thread counts too under the stand-in. pool: stream-ordered memory. vmm: memory
 * that it maps itself. heap: memory that a kernel allocates. pinned: MIB MiB each of allocated,
 * registered, and registered shared memory, in which the thread and kernels count. Its last line
 * depends on all of them and is printed by a kernel. Half-way it waits while GPUCKPT_SELF has a
 * file "hold". */
#include "kinds.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PINNED_WORDS KINDS_WORDS

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool with_slabs, with_managed, with_pool, with_vmm, with_heap;
static size_t bytes, managed_bytes = 64 * MIB;
static struct gpu_slabs slabs;
static unsigned *data, *managed, *seen;
static char *kept_data, *kept_managed;

__device__ static unsigned total;

__global__ static void mix(unsigned *p, size_t n, unsigned k)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	unsigned x;

	if (i >= n)
		return;
	x = p[i];
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	p[i] = x + k;
	if (i == 0)
		total += x;
}

__global__ static void say_round(unsigned i)
{
	printf("round %u\n", i);
}

__global__ static void say_all(unsigned sum, unsigned data_sum, unsigned pool, unsigned mapped,
			       unsigned picture, unsigned heap, bool whole)
{
	printf("sum %08x data %08x pool %08x mapped %08x picture %08x heap %08x total %08x host's "
	       "memory %s\n",
	       sum, data_sum, pool, mapped, picture, heap, total, whole ? "whole" : "LOST");
}

void kinds_mix(unsigned *p, size_t size, unsigned k, cudaStream_t stream)
{
	size_t n = size / sizeof *p;

	mix<<<(n + 255) / 256, 256, 0, stream>>>(p, n, k);
}

/* ---- managed memory is allocated again at its address ---------------------------------------- */

static void free_managed(void)
{
	kept_managed = (char *)malloc(managed_bytes);
	MUST(cuMemcpyDtoH(kept_managed, (CUdeviceptr)managed, managed_bytes));
	MUST(cuMemFree((CUdeviceptr)managed));
	CHECK(mmap(managed, managed_bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == managed);
}

static void allocate_managed(void)
{
	MUST(cuMemcpyHtoD(gpu_managed_at(managed, managed_bytes), kept_managed, managed_bytes));
	free(kept_managed);
}

/* ---- called by self.c ------------------------------------------------------------------------ */

extern "C" void gpu_drain(void)
{
	pthread_mutex_lock(&gate);
	MUST(cuCtxSynchronize());
	if (with_managed)
		free_managed();
	if (!with_slabs)
		return;
	kept_data = (char *)malloc(bytes);
	MUST(cuMemcpyDtoH(kept_data, slabs.at, bytes));
	gpu_slabs_unmap(&slabs);
}

extern "C" void gpu_fill(void)
{
	if (with_managed)
		allocate_managed();
	if (with_slabs) {
		gpu_slabs_renew(&slabs);
		MUST(cuMemcpyHtoD(slabs.at, kept_data, bytes));
		free(kept_data);
	}
	pthread_mutex_unlock(&gate);
}

/* ---- the program ----------------------------------------------------------------------------- */

static struct {
	volatile unsigned *words, *managed, rounds; /* managed may be NULL */
	volatile bool stop;
} counter;

static void *count(void *)
{
	while (!counter.stop) {
		for (int i = 0; i < PINNED_WORDS; i++)
			counter.words[i]++;
		for (int i = 0; counter.managed && i < PINNED_WORDS; i++)
			counter.managed[64 * i]++;
		for (int i = 0; kinds.pinned_bytes && i < 3 * PINNED_WORDS; i++)
			kinds.pinned[i % 3].words[i / 3]++;
		counter.rounds++;
		usleep(100);
	}
	return NULL;
}

/* Whether no increment of the thread is lost, as the CPU and as the GPU see it. */
static bool counted(void)
{
	unsigned copy[PINNED_WORDS];

	MUST(cudaMemcpy(copy, (void *)counter.words, sizeof copy, cudaMemcpyDefault));
	for (int i = 0; i < PINNED_WORDS; i++)
		if (counter.words[i] != counter.rounds || copy[i] != counter.rounds ||
		    (counter.managed && counter.managed[64 * i] != counter.rounds))
			return false;
	for (int i = 0; kinds.pinned_bytes && i < 3 * PINNED_WORDS; i++)
		if (kinds.pinned[i % 3].words[i / 3] != counter.rounds)
			return false;
	return true;
}

static void begin(void)
{
	MUST(cudaHostAlloc((void **)&counter.words, MIB, 0));
	memset((void *)counter.words, 0, MIB);
	MUST(cudaHostAlloc((void **)&seen, 4096, 0));
	if (with_slabs) {
		gpu_slabs_make(&slabs, GPU_SLABS_BASE, GIB << 14, bytes, 1);
		data = (unsigned *)slabs.at;
	} else {
		MUST(cudaMalloc(&data, bytes));
	}
	MUST(cudaMemset(data, 7, bytes));
	if (with_managed) {
		MUST(cudaMallocManaged((void **)&managed, managed_bytes));
		for (size_t i = 0; i < managed_bytes / sizeof *managed; i++)
			managed[i] = (unsigned)i;
	}
	if (with_managed && !getenv("GPUCKPT_SELF_LIBRARY")) {
		MUST(cudaMallocManaged((void **)&counter.managed, 256 * PINNED_WORDS));
		memset((void *)counter.managed, 0, 256 * PINNED_WORDS);
	}
	kinds_make_picture();
	if (with_pool)
		kinds_make_pool();
	if (with_vmm)
		kinds_make_mapped();
	if (kinds.pinned_bytes)
		kinds_make_pinned();
	if (with_heap)
		heap_make();
	MUST(cudaDeviceSynchronize());
}

static cudaGraphExec_t make_graph(cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	kinds_mix(data, bytes, 3, stream);
	MUST(cudaMemcpyAsync(seen, data, 4096, cudaMemcpyDeviceToHost, stream));
	MUST(cudaStreamEndCapture(stream, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

static unsigned one_round(unsigned i, cudaGraphExec_t graph, cudaStream_t stream)
{
	unsigned sum = 0;

	kinds_mix(data, bytes, i, stream);
	MUST(cudaGraphLaunch(graph, stream));
	if (with_managed)
		kinds_mix(managed, managed_bytes, i, stream);
	kinds_use(i, stream);
	kinds_draw(i, stream);
	MUST(cudaStreamSynchronize(stream));
	if (with_managed) {
		managed[i % 1000] ^= i;
		sum = managed[(i * 7919) % (managed_bytes / sizeof *managed)];
	}
	/* kernels print before the first checkpoint and after the last */
	if (i == 10)
		say_round<<<1, 1, 0, stream>>>(i);
	if (i % 10 == 0 && with_heap)
		heap_use(i, stream);
	return sum + seen[i % 1024];
}

/* A file in the watcher's folder. */
static const char *beside(const char *name, char path[300])
{
	const char *where = getenv("GPUCKPT_SELF");

	snprintf(path, 300, "%s/%s", where ? where : "/nowhere", name);
	return path;
}

static bool is_held(void)
{
	char path[300];

	return access(beside("hold", path), F_OK) == 0;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[1]) : 0, sum = 0;
	cudaGraphExec_t graph;
	cudaStream_t stream;
	pthread_t thread;

	bytes = argc > 2 ? strtoul(argv[2], NULL, 10) * MIB : 0;
	for (int i = 3; i < argc; i++) {
		with_slabs |= !strcmp(argv[i], "slabs");
		with_managed |= !strcmp(argv[i], "managed");
		if (!strncmp(argv[i], "managed=", 8)) {
			with_managed = true;
			managed_bytes = strtoul(argv[i] + 8, NULL, 10) * MIB;
		}
		with_pool |= !strcmp(argv[i], "pool");
		with_vmm |= !strcmp(argv[i], "vmm");
		with_heap |= !strcmp(argv[i], "heap");
		if (!strncmp(argv[i], "pinned=", 7))
			kinds.pinned_bytes = strtoul(argv[i] + 7, NULL, 10) * MIB;
	}
	if (!rounds || (getenv("GPUCKPT_SELF_LIBRARY") &&
			!dlopen(getenv("GPUCKPT_SELF_LIBRARY"), RTLD_NOW)))
		return 2;
	gpu_init();
	begin();
	MUST(cudaStreamCreate(&stream));
	graph = make_graph(stream);
	pthread_create(&thread, NULL, count, NULL);
	for (unsigned i = 0; i < rounds; i++) {
		pthread_mutex_lock(&gate);
		sum = sum * 31 + one_round(i, graph, stream);
		pthread_mutex_unlock(&gate);
		usleep(3000);
		if (i == 20)
			gpu_say_started();
		while (i == rounds / 2 && is_held())
			usleep(1000);
	}
	counter.stop = true;
	pthread_join(thread, NULL);
	say_all<<<1, 1>>>(sum, kinds_sum(data, bytes),
			  kinds.pool ? kinds_sum(kinds.pool, KINDS_SIZE) : 0,
			  kinds.mapped ? kinds_sum(kinds.mapped, 2 * KINDS_SIZE) : 0,
			  kinds_picture_sum(), with_heap ? heap_sum() : 0,
			  counted() && kinds_counted(rounds));
	MUST(cudaDeviceSynchronize());
	return 0;
}
