/* SPDX-License-Identifier: Apache-2.0
 * A program that computes on the fake driver for some seconds, with everything that a restart has
 * to restore: streams, events, graphs, host functions, pinned memory that a second thread counts
 * in, two contexts, and a process that was forked meanwhile, as a DataLoader's worker. It prints
 * the same line however often it was stopped. It does not pause while $GPUCKPT_TEST_HURRY exists.
 * With "replay" it has nothing that cuda=replay refuses, and keeps more of the driver
 * (restart_kept.h). */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"
#include "shim/cuda/test/listener.h"
#include "shim/cuda/test/restart_kept.h"
#include "shim/cuda/test/vmm_model.h"

#define ROUNDS 400
#define COUNTS 6000

static _Atomic uint64_t *pinned, *managed;
static uint64_t calls;
static const char *hurry;

static void pause_us(unsigned us)
{
	if (!hurry || access(hurry, F_OK))
		usleep(us);
}

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
		atomic_fetch_add(managed, 1);
		pause_us(1000);
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

static void *managed_memory(void)
{
	CUdeviceptr at = 0;

	CHECK(cuMemAllocManaged(&at, 100000, CU_MEM_ATTACH_GLOBAL));
	return (void *)at;
}

static CUgraphExec graph_of(CUmodule module, CUstream stream, CUdeviceptr at)
{
	CUgraphExec exec;
	CUgraph graph;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch_add(module, stream, at, 100);
	CHECK(cuMemcpyDtoDAsync((CUdeviceptr)(managed + 2000), at, 8, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	return exec;
}

/* Stream-ordered memory: what is computed in some that lives for a moment goes to some that stays.
 * */
static void compute_in_order(CUmodule module, CUstream stream, CUdeviceptr results, uint64_t i)
{
	CUdeviceptr scratch;

	CHECK(cuMemAllocAsync(&scratch, 4096 << i % 9, stream));
	CHECK(cuMemsetD8Async(scratch, 0, 4096 << i % 9, stream));
	launch_add(module, stream, scratch, i);
	CHECK(cuMemcpyDtoDAsync(results + 8 * i, scratch, 8, stream));
	CHECK(cuMemFreeAsync(scratch, stream));
}

static uint64_t sum_of(CUdeviceptr results)
{
	uint64_t words[ROUNDS], sum = 0;

	CHECK(cuMemcpyDtoH(words, results, sizeof words));
	for (int i = 0; i < ROUNDS; i++)
		sum += words[i];
	return sum;
}

/* ---- objects that are used only once --------------------------------------------------------- */

#define THRESHOLD ((cuuint64_t)12345678)
#define LEVEL 2
#define ROW 8 /* bytes of that level */

static struct {
	CUmemoryPool pool;
	CUtexObject linear;
	CUmipmappedArray mipmap;
	CUgraphExec holder;
	uint64_t ends; /* of an object that the graph holds */
} others;

/* Of a level, to it or from it. */
static void copy_level(uint64_t *row, bool back)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = back ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST,
			   .dstMemoryType = back ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY,
			   .srcHost = row, .dstHost = row, .WidthInBytes = ROW, .Height = 1,
			   .Depth = 1};
	CUarray level;

	CHECK(cuMipmappedArrayGetLevel(&level, others.mipmap, LEVEL));
	*(back ? &c.srcArray : &c.dstArray) = level;
	CHECK(cuMemcpy3D(&c));
}

/* Only an executable graph holds an object. */
static void give_object(void)
{
	CUuserObject object;
	CUgraph graph;

	CHECK(cuUserObjectCreate(&object, &others.ends, called, 1,
				 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CHECK(cuGraphInstantiate(&others.holder, graph, 0));
	CHECK(cuGraphDestroy(graph));
}

static bool ends_object(void)
{
	bool early = others.ends;

	CHECK(cuGraphExecDestroy(others.holder));
	for (int ms = 0; ms < 1000 && !others.ends; ms++)
		usleep(1000);
	return !early && others.ends == 1;
}

static void make_others(CUdeviceptr memory)
{
	const CUmemPoolProps about = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUDA_ARRAY3D_DESCRIPTOR extent = {8, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
	const CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_LINEAR,
		.res.linear = {memory, CU_AD_FORMAT_UNSIGNED_INT32, 1, 8}};
	const CUDA_TEXTURE_DESC texture = {.flags = CU_TRSF_READ_AS_INTEGER};
	cuuint64_t threshold = THRESHOLD;
	uint64_t row = 77;

	CHECK(cuMemPoolCreate(&others.pool, &about));
	CHECK(cuMemPoolSetAttribute(others.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	CHECK(cuDeviceSetMemPool(0, others.pool));
	CHECK(cuMipmappedArrayCreate(&others.mipmap, &extent, 4));
	copy_level(&row, false);
	CHECK(cuTexObjectCreate(&others.linear, &resource, &texture, NULL));
	give_object();
}

static bool has_others(CUdeviceptr memory)
{
	CUDA_RESOURCE_DESC resource;
	cuuint64_t threshold;
	CUmemoryPool pool;
	uint64_t row = 0;

	CHECK(cuDeviceGetMemPool(&pool, 0));
	CHECK(cuMemPoolGetAttribute(others.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	copy_level(&row, true);
	CHECK(cuTexObjectGetResourceDesc(&resource, others.linear));
	return pool == others.pool && threshold == THRESHOLD && row == 77 &&
	       resource.res.linear.devPtr == memory && ends_object();
}

/* ---- a worker ------------------------------------------------------------------------------- */

/* Such a process has the driver's devices from its parent. It makes one here, if it may. */
static int open_device(void)
{
	static const char path[] = "/dev/nvidia-gpuckpt-test";
	int fd;

	unlink(path);
	if (mknod(path, S_IFCHR | 0600, makedev(1, 5)))
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	return fd;
}

/* Squares numbers until there are no more. Its exit status is 0 if all descriptors are there. */
static void work(int in, int out)
{
	int device = open_device();
	uint64_t x;

	while (read(in, &x, sizeof x) == sizeof x) {
		x *= x;
		if (write(out, &x, sizeof x) != sizeof x)
			break;
	}
	_exit(fcntl(device, F_GETFD) < 0);
}

/* A child is in the handlers of fork for as long as the test wants. */
static void await_fork(void)
{
	const char *forks = getenv("GPUCKPT_TEST_FORKS");

	while (forks && !access(forks, F_OK))
		usleep(1000);
}

static int numbers = -1, squares = -1;

static pid_t start_worker(void)
{
	int in[2], out[2];
	pid_t pid;

	if (pipe(in) || pipe(out))
		_exit(99);
	pid = fork();
	if (pid == 0) {
		close(in[1]);
		close(out[0]);
		work(in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	numbers = in[1];
	squares = out[0];
	return pid;
}

static uint64_t square(uint64_t x)
{
	if (write(numbers, &x, sizeof x) != sizeof x || read(squares, &x, sizeof x) != sizeof x)
		return 0;
	return x;
}

static int end_worker(pid_t pid)
{
	int status;

	close(numbers);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* It has work for as long as the test wants. */
static void await_end(void)
{
	while (hurry && access(hurry, F_OK))
		usleep(1000);
}

int main(int argc, char **argv)
{
	bool all = argc < 2 || strcmp(argv[1], "replay") != 0;
	const char *more = argc > 2 ? argv[2] : "";
	CUdeviceptr sum, other, results;
	CUcontext context, second;
	CUstream one, two;
	CUgraphExec graph;
	CUmemoryPool pool;
	CUmodule module;
	CUevent event;
	pthread_t thread;
	const char *wrong;
	uint64_t a, b, worked = 0;
	pid_t worker;

	hurry = getenv("GPUCKPT_TEST_HURRY");
	pthread_atfork(NULL, NULL, await_fork);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxCreate(&second, NULL, 0, 0));
	CHECK(cuMemAlloc(&other, 1 << 20));
	CHECK(cuMemsetD8(other, 1, 1 << 20));
	CHECK(cuCtxSynchronize()); /* of this context: the other one uses it, too */
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, all ? "" : kept_image(more)));
	CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, 0));
	CHECK(cuMemAlloc(&sum, 8));
	make_others(sum);
	CHECK(cuMemAllocAsync(&results, 8 * ROUNDS, one));
	CHECK(cuMemsetD8(sum, 0, 8));
	CHECK(cuMemAllocHost((void **)&pinned, 8));
	managed = managed_memory();
	managed[0] = managed[1000] = managed[2000] = 0;
	CHECK(cuCtxSynchronize());
	graph = graph_of(module, one, sum);
	worker = start_worker();
	pthread_create(&thread, NULL, count, NULL);
	wrong = listener_begin();
	wrong = wrong ? wrong : vmm_begin(1);
	if (!wrong && !all)
		wrong = kept_begin(module, more);
	wrong = wrong || !getenv("FAKE_CUDA_PARTS") ? wrong : vmm_parts();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (i == ROUNDS - 1)
			await_end();
		launch_add(module, one, sum, i);
		CHECK(cuGraphLaunch(graph, one));
		CHECK(cuEventRecord(event, one));
		CHECK(cuStreamWaitEvent(two, event, 0));
		launch_add(module, two, sum, 1);
		CHECK(cuLaunchHostFunc(two, called, &calls));
		CHECK(cuEventRecord(event, two));
		CHECK(cuStreamWaitEvent(one, event, 0));
		launch_add(module, two, other, 1);
		launch_add(module, two, (CUdeviceptr)(managed + 1000), i);
		compute_in_order(module, i % 3 ? one : two, results, i);
		worked += square(i);
		wrong = wrong ? wrong : vmm_steps(2);
		wrong = wrong || all ? wrong : kept_look();
		wrong = wrong ? wrong : listener_look();
		pause_us(5000);
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuDeviceGetDefaultMemPool(&pool, 0) | cuMemPoolTrimTo(pool, 0));
	wrong = wrong || !getenv("FAKE_CUDA_PARTS") ? wrong : vmm_parts_end();
	wrong = wrong ? wrong : vmm_end();
	wrong = wrong || has_others(sum) ? wrong : "another pool, level, texture or object";
	pthread_join(thread, NULL);
	CHECK(cuMemcpyDtoH(&a, sum, 8));
	CHECK(cuMemcpyDtoH(&b, other, 8));
	printf("sum %llu, other %llu, calls %llu, pinned %llu, managed %llu %llu %llu, "
	       "in order %llu, worked %llu %d, own: %s\n",
	       (unsigned long long)a, (unsigned long long)b, (unsigned long long)calls,
	       (unsigned long long)*pinned, (unsigned long long)managed[0],
	       (unsigned long long)managed[1000], (unsigned long long)managed[2000],
	       (unsigned long long)sum_of(results),
	       (unsigned long long)worked, end_worker(worker), wrong ? wrong : "right");
	return 0;
}
