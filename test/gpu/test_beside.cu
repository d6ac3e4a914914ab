/* SPDX-License-Identifier: Apache-2.0
 * Calls of the shim's data thread while the program's kernels run. None of them may wait for a
 * kernel, which may itself wait for the host, or delay another thread's launches. Calls that do are
 * marked may_wait, and the data thread does not make them then. Takes the path of
 * shim/cuda/snapshot/hash.ptx from GPUCKPT_TEST_PTX. */
#include "driver.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LONGEST_MS 500
#define RING (64 * MIB)
#define PART (4 * MIB)
#define BLOCK (2 * GIB)

static volatile int *flag; /* the kernel ends when it is not 0 */
static volatile bool done;
static void *ring;
static CUstream lowest;
static CUevent event;
static CUdeviceptr at;
static CUmemGenericAllocationHandle handle;
static int fd = -1;

__global__ static void spin(volatile int *until)
{
	while (!*until)
		;
}

__global__ static void nothing(void)
{
}

/* ---- the calls ------------------------------------------------------------------------------ */

static void arrived(void)
{
	MUST(cuEventRecord(event, lowest));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		usleep(50);
}

static void map(void)
{
	CUmemAccessDesc access = {};

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemMap(at, BLOCK, 0, handle, 0));
	MUST(cuMemSetAccess(at, BLOCK, &access, 1));
}

static void create(void)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	MUST(cuMemCreate(&handle, BLOCK, &prop, 0));
}

static void make_stream(void)
{
	int low, high;

	MUST(cuCtxGetStreamPriorityRange(&low, &high));
	MUST(cuStreamCreateWithPriority(&lowest, CU_STREAM_NON_BLOCKING, low));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void send(void)
{
	MUST(cuMemcpyDtoHAsync((char *)ring + PART, at, RING - PART, lowest));
	arrived();
}

static void fetch(void)
{
	MUST(cuMemcpyHtoDAsync(at, (char *)ring + PART, RING - PART, lowest));
	arrived();
}

static void copy(void)
{
	MUST(cuMemcpyDtoDAsync(at, at + GIB, GIB, lowest));
	arrived();
}

static void import(void)
{
	MUST(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

static void get_info(void)
{
	size_t available, total;

	MUST(cuMemGetInfo(&available, &total));
}

static void end_stream(void)
{
	MUST(cuEventDestroy(event));
	MUST(cuStreamDestroy(lowest));
}

static void reserve(void) { MUST(cuMemAddressReserve(&at, BLOCK, 0, 0, 0)); }
static void do_export(void)
{
	MUST(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  0));
}
static void unmap(void) { MUST(cuMemUnmap(at, BLOCK)); }
static void release(void) { MUST(cuMemRelease(handle)); }

static void do_register(void)
{
	MUST(cuMemHostRegister((char *)ring + PART, RING - PART, CU_MEMHOSTREGISTER_PORTABLE));
}

static void register_part(void)
{
	MUST(cuMemHostRegister(ring, PART, CU_MEMHOSTREGISTER_PORTABLE));
}
static void unregister(void)
{
	MUST(cuMemHostUnregister(ring));
	MUST(cuMemHostUnregister((char *)ring + PART));
}

static CUmodule module;
static CUfunction kernel;

static void load(void)
{
	static char text[1 << 20];
	const char *path = getenv("GPUCKPT_TEST_PTX");
	FILE *f = fopen(path ? path : "shim/cuda/snapshot/hash.ptx", "r");

	CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	MUST(cuModuleLoadData(&module, text));
	MUST(cuModuleGetFunction(&kernel, module, "gck_hash_kernel"));
}

static void hash(void)
{
	uint64_t n = GIB / (256 << 10), address = at, size = GIB, to = (uintptr_t)ring;
	void *arguments[] = {&address, &size, &to};

	MUST(cuLaunchKernel(kernel, (unsigned)(n * 8 / 256), 1, 1, 256, 1, 1, 0, lowest, arguments,
			    NULL));
	arrived();
}

static void unload(void) { MUST(cuModuleUnload(module)); }

static const struct {
	const char *name;
	void (*call)(void);
	bool may_wait; /* it sometimes waits, so it is made only when the GPU is idle */
} calls[] = {
	{"stream_create", make_stream},
	{"register_part", register_part},
	{"host_register", do_register},
	{"reserve", reserve},
	{"create", create},
	{"map", map},
	{"export", do_export},
	{"copy_on_device", copy},
	{"copy_out", send},
	{"copy_in", fetch},
	{"module_load", load, true},
	{"hash", hash},
	{"module_unload", unload},
	{"module_load_again", load, true},
	{"unmap", unmap},
	{"release", release},
	{"import", import},
	{"map_again", map},
	{"get_info", get_info},
	{"unmap_again", unmap},
	{"release_again", release},
	{"stream_destroy", end_stream},
	{"host_unregister", unregister, true},
};

/* ---- beside the program ---------------------------------------------------------------------- */

static void *call_one(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	MUST(cuCtxSetCurrent(gpu_context));
	MUST(cuThreadExchangeStreamCaptureMode(&mode));
	((void (*)(void))arg)();
	done = true;
	return NULL;
}

/* Milliseconds until the call returns, and the longest launch meanwhile. The kernel is released
 * after LONGEST_MS. */
static double beside(void (*call)(void), cudaStream_t program, cudaStream_t other, double *launch)
{
	double begin, one;
	pthread_t thread;
	bool released = false;

	*flag = 0;
	*launch = 0;
	done = false;
	spin<<<1, 1, 0, program>>>(flag);
	usleep(2000);
	begin = gpu_ms();
	pthread_create(&thread, NULL, call_one, (void *)call);
	while (!done) {
		/* otherwise a launch that waits for the kernel would never return */
		if (!released && gpu_ms() - begin > LONGEST_MS) {
			*flag = 1;
			released = true;
		}
		one = gpu_ms();
		if (gpu_ms() - begin < LONGEST_MS) {
			nothing<<<1, 1, 0, other>>>();
			*launch = gpu_ms() - one > *launch ? gpu_ms() - one : *launch;
		}
		usleep(20);
	}
	begin = gpu_ms() - begin;
	pthread_join(thread, NULL);
	*flag = 1;
	MUST(cudaStreamSynchronize(program));
	MUST(cudaStreamSynchronize(other));
	return begin;
}

/* Releases the kernel if a launch waits for a call that waits for the kernel. */
static void *watch(void *)
{
	for (double since = 0;; usleep(10000)) {
		since = *flag ? 0 : since + 10;
		if (since > 2 * LONGEST_MS)
			*flag = 1;
	}
	return NULL;
}

static void nothing_waits(void)
{
	cudaStream_t program, other;
	pthread_t watcher;
	bool good = true;
	int memory;

	MUST(cudaHostAlloc((void **)&flag, sizeof *flag, 0));
	MUST(cudaStreamCreateWithFlags(&program, cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	*flag = 1;
	spin<<<1, 1, 0, program>>>(flag); /* so that both kernels are loaded */
	nothing<<<1, 1, 0, other>>>();
	MUST(cudaDeviceSynchronize());
	pthread_create(&watcher, NULL, watch, NULL);
	memory = memfd_create("ring", MFD_CLOEXEC);
	CHECK(!ftruncate(memory, RING));
	ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		double launch, ms = beside(calls[i].call, program, other, &launch);

		printf("# %s: %.2f ms, longest launch beside it %.2f ms\n", calls[i].name, ms,
		       launch);
		fflush(stdout);
		good = good && (calls[i].may_wait || (ms < LONGEST_MS && launch < LONGEST_MS));
	}
	CHECK(good);
}

static void beside_a_kernel(void)
{
	gpu_init();
	nothing_waits();
}

int main(int argc, char **argv)
{
	static const struct gpu_case cases[] = {
		{"nothing that the data thread calls waits for a kernel", beside_a_kernel},
	};

	return gpu_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
