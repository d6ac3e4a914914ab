/* SPDX-License-Identifier: Apache-2.0
 * A rank with CUDA that reads commands from standard input, one a line, and prints one line for
 * each. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/test/hash_kernel.h"
#include "shim/cuda/test/managed_model.h"
#include "shim/cuda/test/ordered_model.h"
#include "shim/cuda/test/rank_obstacles.h"
#include "shim/cuda/test/vmm_model.h"
#include "test/support/driver/fake.h"

#define SIZE (1 << 20)
#define MORE (64 << 20)

static CUcontext context;
static CUmodule module;
static CUstream stream;
static CUdeviceptr data, managed, large;
static bool ending;
static uint64_t *flag; /* a kernel waits for the first; it writes to the second */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int init(void)
{
	int rc = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);

	rc |= cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) | cuMemAlloc(&data, SIZE);
	rc |= cuMemsetD8(data, 3, SIZE) | cuMemAllocHost((void **)&flag, 16);
	return rc | cuModuleLoadData(&module, "") | cuCtxSynchronize();
}

/* The sum of the device's bytes. */
static int sum(void)
{
	static unsigned char host[SIZE];
	int total = cuMemcpyDtoH(host, data, SIZE) ? -1 : 0;

	for (int i = 0; total >= 0 && i < SIZE; i++)
		total += host[i];
	return total;
}

/* Allocate memory in slabs of its own. */
static int more(void)
{
	return cuMemAlloc(&large, MORE) | cuMemsetD8(large, 5, MORE) | cuCtxSynchronize();
}

/* Memory on a second device. */
static CUdeviceptr distant;

static int beside(void)
{
	CUcontext second;
	int rc = cuDevicePrimaryCtxRetain(&second, 1) | cuCtxSetCurrent(second) |
		 cuMemAlloc(&distant, MORE);

	return rc | cuMemsetD8(distant, 6, MORE) | cuCtxSynchronize() | cuCtxSetCurrent(context);
}

static int look_beside(void)
{
	const unsigned char *at = (const void *)(uintptr_t)distant;

	return at[0] + at[MORE - 1];
}

/* Allocate this many MiB, and free them. */
static int huge(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAlloc(&at, (size_t)mib << 20);

	return rc ? rc : cuMemFree(at);
}

/* Allocate n blocks of 8 MiB one after the other, and free them. At each number of blocks another
 * one is allocated and freed 20 times, also when the last slab is full. */
static int edges(int n)
{
	static CUdeviceptr at[64];
	int rc = n > 64, up = 1;

	for (int i = 0; !rc && i >= 0; i += up) {
		for (int turn = 0; turn < 20; turn++)
			rc |= huge(8);
		if (i == n)
			up = -1;
		rc |= up > 0 ? cuMemAlloc(&at[i], 8 << 20) : i > 0 ? cuMemFree(at[i - 1]) : 0;
	}
	return rc;
}

/* Do that, and release a context, in n children one after the other. -2: one did not end within a
 * minute. */
static int children(int n)
{
	int status = 0;

	for (int i = 0; i < n && WIFEXITED(status); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			_exit(huge(4096) | (int)cuDevicePrimaryCtxRelease(0));
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

/* Allocate and never free: a free would wait for the program's kernels. Each MiB begins with its
 * number. */
static int take(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAlloc(&at, (size_t)mib << 20);

	for (int i = 0; !rc && i < mib; i++)
		rc = cuMemsetD32(at + ((CUdeviceptr)i << 20), (unsigned int)i, 1);
	return rc;
}

/* Allocations with holes between them, with different bytes in each page group. */
static int odd(void)
{
	CUdeviceptr at[9];
	int rc = 0;

	for (int i = 0; i < 9; i++) {
		rc |= cuMemAlloc(&at[i], (1 << 20) + (size_t)i * 77777);
		for (int k = 0; k < 16; k++)
			rc |= cuMemsetD8(at[i] + (size_t)k * 65536, (unsigned char)(16 * i + k),
					 65536);
	}
	for (int i = 1; i < 9; i += 3)
		rc |= cuMemFree(at[i]);
	return rc | cuCtxSynchronize();
}

/* Allocate and free this many MiB in the order of a stream. */
static int huge_in_order(int mib)
{
	CUdeviceptr at;
	CUresult rc = cuMemAllocAsync(&at, (size_t)mib << 20, stream);

	return rc ? rc : cuMemFreeAsync(at, stream);
}

/* Put a file of the program at that number. 0: a child has it too. */
static int replace(int fd)
{
	int status = -1;
	pid_t pid = dup2(0, fd) == fd ? fork() : -1;

	if (pid == 0)
		_exit(fcntl(fd, F_GETFD) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Limit descriptors to numbers below this one. */
static int limit(int n)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return -1;
	l.rlim_cur = (rlim_t)n;
	return setrlimit(RLIMIT_NOFILE, &l);
}

static int available(void)
{
	size_t bytes = 0, total;

	return cuMemGetInfo(&bytes, &total) ? -1 : (int)(bytes >> 20);
}

static int spin_on(CUstream where, const char *kernel, unsigned int blocks)
{
	uint64_t at = (uintptr_t)flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	flag[0] = flag[1] = 0;
	return cuModuleGetFunction(&f, module, kernel) |
	       cuLaunchKernel(f, blocks, 1, 1, 1, 1, 1, 0, where, params, NULL);
}

static int spin(CUstream where)
{
	return spin_on(where, "wait_flag", 1);
}

/* Other kernels begin after this one: it has begun itself. */
static int fill_device(void)
{
	int rc = spin_on(stream, "begin_and_wait", 1024);

	while (!rc && !((volatile uint64_t *)flag)[1])
		usleep(1000);
	return rc;
}

static void *synchronize(void *arg)
{
	pthread_setname_np(pthread_self(), "waiter");
	cuStreamSynchronize(stream);
	return arg;
}

static int start_waiter(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, synchronize, NULL) | pthread_detach(thread) |
	       usleep(50000);
}

static void want_lock(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* A host function takes a lock whose owner waits at the closed gate. */
static int lockstep(void)
{
	size_t available, total;
	int rc;

	pthread_mutex_lock(&lock);
	rc = cuLaunchHostFunc(stream, want_lock, NULL);
	usleep(50000);
	rc |= cuMemGetInfo(&available, &total);
	pthread_mutex_unlock(&lock);
	return rc;
}

static void work(void *ms)
{
	usleep((useconds_t)(uintptr_t)ms * 1000);
}

static int work_for(int ms)
{
	return cuLaunchHostFunc(stream, work, (void *)(intptr_t)ms);
}

/* Queue many of them. */
static int queue(int n, int ms)
{
	int rc = 0;

	while (n--)
		rc |= work_for(ms);
	return rc;
}

/* Queue seconds of work, and more as fast as it is done or faster, without end. */
static void *keep_ahead(void *unused)
{
	cuCtxSetCurrent(context);
	queue(150, 20);
	for (;;) {
		work_for(20);
		usleep(10000);
	}
	return unused;
}

static int run_ahead(void)
{
	pthread_t thread;

	return work_for(20) | pthread_create(&thread, NULL, keep_ahead, NULL) |
	       pthread_detach(thread);
}

/* Give the stream work behind a kernel that this thread ends. */
static int behind(void)
{
	int rc = queue(3, 1);

	*flag = 1;
	return rc | cuStreamSynchronize(stream);
}

/* Keep the stream busy for ms. */
static void *keep_busy(void *ms)
{
	cuCtxSetCurrent(context);
	for (int i = 0; i < (int)(intptr_t)ms / 3; i++) {
		work_for(4);
		usleep(3000);
	}
	return NULL;
}

static int busy(int ms)
{
	pthread_t thread;

	return work_for(4) | pthread_create(&thread, NULL, keep_busy, (void *)(intptr_t)ms) |
	       pthread_detach(thread);
}

static int spin_and_destroy(void)
{
	CUstream other;

	return cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) | spin(other) |
	       cuStreamDestroy(other);
}

static int stack(void)
{
	size_t size = 0;

	return cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE) ? -1 : (int)size;
}

static int end_capture(void)
{
	CUgraph graph;

	return cuStreamEndCapture(stream, &graph);
}

static int future(void)
{
	int (*f)(int *) = NULL, value = 0;
	CUresult rc = cuGetProcAddress_v2("cuFakeFuture", (void **)&f, 13000, 0, NULL);

	return rc ? (int)rc : f(&value);
}

/* Call a function without its signature, so that it fails. */
static int use(const char *function)
{
	int (*f)(void *, void *, void *) = dlsym(RTLD_DEFAULT, function);

	return f ? !f(NULL, NULL, NULL) : -1;
}

/* A handle of memory on slabs: not supported. */
static int own_handle(void)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, data);
}

/* Stream-ordered memory in two pools, which keep what is freed: 4 MiB of 12 each. */
static CUmemoryPool in_order[2];
static CUdeviceptr taken[2];

static int pools(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t all = UINT64_MAX;
	CUdeviceptr freed;
	int rc = cuDeviceGetDefaultMemPool(&in_order[0], 0) | cuMemPoolCreate(&in_order[1], &props);

	for (int i = 0; i < 2 && !rc; i++) {
		rc |= cuMemPoolSetAttribute(in_order[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
		rc |= cuMemAllocFromPoolAsync(&taken[i], 4 * SIZE, in_order[i], stream);
		rc |= cuMemAllocFromPoolAsync(&freed, 8 * SIZE, in_order[i], stream);
		rc |= cuMemsetD8Async(taken[i], 7, 4 * SIZE, stream) |
		      cuMemFreeAsync(freed, stream);
	}
	return rc | cuStreamSynchronize(stream);
}

/* The MiB that both pools have reserved; -1: used memory has lost its contents. */
static int reserved(void)
{
	cuuint64_t bytes[2] = {0, 0};
	unsigned char last[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		cuMemPoolGetAttribute(in_order[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes[i]);
		cuMemcpyDtoH(&last[i], taken[i] + 4 * SIZE - 1, 1);
	}
	return last[0] == 7 && last[1] == 7 ? (int)((bytes[0] + bytes[1]) / SIZE) : -1;
}

static int is_wrong(const char *wrong)
{
	if (wrong)
		fprintf(stderr, "wrong: %s\n", wrong);
	return wrong != NULL;
}

/* A module with a managed variable, which the program does not look up. */
static CUmodule with_variable;

static int variable(void)
{
	return cuModuleLoadData(&with_variable, "managed");
}

/* Look up a managed variable by name in the module of a library. */
static CUlibrary library;

static int variable_of_library(void)
{
	CUmodule of_library;
	CUdeviceptr at;
	size_t size;

	return cuLibraryLoadData(&library, "managed", NULL, NULL, 0, NULL, NULL, 0) |
	       cuLibraryGetModule(&of_library, library) |
	       cuModuleGetGlobal(&at, &size, of_library, "any");
}

/* A thread writes to it all the time, also while the driver is away: its address must stay
 * mapped. */
static volatile uint64_t *combined;

static void *count(void *arg)
{
	for (;;) {
		++*combined;
		usleep(100);
	}
	return arg;
}

static int write_combined(void)
{
	unsigned int flags = 0;
	pthread_t thread;
	int rc = cuMemHostAlloc((void **)&combined, 8, CU_MEMHOSTALLOC_WRITECOMBINED);

	rc |= cuMemHostGetFlags(&flags, (void *)combined);
	return rc | pthread_create(&thread, NULL, count, NULL) |
	       !(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
}

static int new_context(void)
{
	CUcontext second;

	return cuCtxCreate(&second, NULL, 0, 0) | cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096) |
	       cuStreamCreate(&stream, 0);
}

static int fail(CUcontext where)
{
	uint64_t at = (uintptr_t)flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	return cuCtxSetCurrent(where) | cuModuleGetFunction(&f, module, "wait_flag") |
	       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 1 << 21, NULL, params, NULL) |
	       !cuCtxSynchronize();
}

/* Destroy no context (0), a destroyed one (1), a primary one (2), or one whose work has failed (3).
 * Returns 0 if that is refused. */
static int destroy(int which)
{
	CUcontext wrong[] = {NULL, NULL, context, NULL};
	int rc = 0;

	if (which == 1 || which == 3)
		rc = cuCtxCreate(&wrong[which], NULL, 0, 0);
	if (which == 1)
		rc |= cuCtxDestroy(wrong[1]);
	if (which == 3)
		rc |= fail(wrong[3]);
	return rc | !cuCtxDestroy(wrong[which]) | cuCtxSetCurrent(context);
}

/* Make a context in a thread that has none. */
static void *make_context(void *arg)
{
	CUcontext own;

	(void)arg;
	return (void *)(uintptr_t)cuCtxCreate(&own, NULL, 0, 0);
}

static int first_context(void)
{
	pthread_t thread;
	void *rc = NULL;

	return pthread_create(&thread, NULL, make_context, NULL) | pthread_join(thread, &rc) |
	       (int)(uintptr_t)rc;
}

/* Commands of the models; -99: it is not one. */
static int run_model(const char *word)
{
	if (!strcmp(word, "model")) return is_wrong(managed_begin(module, 1));
	if (!strcmp(word, "forget")) return managed_forgets(), 0; /* advice may be lost */
	if (!strcmp(word, "steps")) return is_wrong(managed_steps(150));
	if (!strcmp(word, "model ends")) return is_wrong(managed_end());
	if (!strcmp(word, "vmm")) return is_wrong(vmm_begin(1));
	if (!strncmp(word, "vmm steps ", 10)) return is_wrong(vmm_steps(atoi(word + 10)));
	if (!strcmp(word, "vmm few")) return is_wrong(vmm_few());
	if (!strcmp(word, "vmm export")) return is_wrong(vmm_export());
	if (!strcmp(word, "vmm make")) return is_wrong(vmm_make());
	if (!strcmp(word, "vmm drop")) return is_wrong(vmm_drop());
	if (!strcmp(word, "vmm parts")) return is_wrong(vmm_parts());
	if (!strcmp(word, "vmm parts end")) return is_wrong(vmm_parts_end());
	if (!strcmp(word, "vmm look")) return is_wrong(vmm_look());
	if (!strcmp(word, "vmm threads")) return is_wrong(vmm_threads(100));
	if (!strcmp(word, "vmm ends")) return is_wrong(vmm_end());
	if (!strcmp(word, "order")) return is_wrong(ordered_begin(module, 1));
	if (!strcmp(word, "order steps")) return is_wrong(ordered_steps(400));
	if (!strcmp(word, "order ends")) return is_wrong(ordered_end());
	return -99;
}

static int run(const char *word)
{
	int answer = run_model(word);

	if (!strcmp(word, "init")) return init();
	if (!strcmp(word, "sum")) return sum();
	if (!strcmp(word, "more")) return more();
	if (!strcmp(word, "beside")) return beside();
	if (!strcmp(word, "other")) return look_beside();
	if (!strcmp(word, "less")) return cuMemFree(large);
	if (!strcmp(word, "change")) return cuMemsetD8(large, 9, MORE) | cuCtxSynchronize();
	if (!strncmp(word, "huge ", 5)) return huge(atoi(word + 5));
	if (!strncmp(word, "edges ", 6)) return edges(atoi(word + 6));
	if (!strncmp(word, "children ", 9)) return children(atoi(word + 9));
	if (!strncmp(word, "take ", 5)) return take(atoi(word + 5));
	if (!strncmp(word, "async ", 6)) return huge_in_order(atoi(word + 6));
	if (!strcmp(word, "odd")) return odd();
	if (!strcmp(word, "free")) return available();
	if (!strcmp(word, "release")) return cuDevicePrimaryCtxRelease(0);
	if (!strncmp(word, "close ", 6)) return close(atoi(word + 6));
	if (!strncmp(word, "replace ", 8)) return replace(atoi(word + 8));
	if (!strncmp(word, "limit ", 6)) return limit(atoi(word + 6));
	if (!strcmp(word, "query")) return cuStreamQuery(stream);
	if (!strcmp(word, "spin")) return spin(stream);
	if (!strncmp(word, "work ", 5)) return work_for(atoi(word + 5));
	if (!strncmp(word, "busy ", 5)) return busy(atoi(word + 5));
	if (!strcmp(word, "queue")) return queue(35, 100);
	if (!strcmp(word, "finish")) return cuCtxSynchronize();
	if (!strcmp(word, "ahead")) return run_ahead();
	if (!strcmp(word, "behind")) return behind();
	if (!strcmp(word, "exit")) { ending = true; exit(0); }
	if (!strcmp(word, "fill device")) return fill_device();
	if (!strcmp(word, "stop")) { *flag = 1; return 0; }
	if (!strcmp(word, "waiter")) return start_waiter();
	if (!strcmp(word, "lockstep")) return lockstep();
	if (!strcmp(word, "destroyed")) return spin_and_destroy();
	if (!strcmp(word, "stack")) return stack();
	if (!strcmp(word, "context")) return new_context();
	if (!strncmp(word, "destroy ", 8)) return destroy(atoi(word + 8));
	if (!strcmp(word, "first context")) return first_context();
	if (!strcmp(word, "capture"))
		return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	if (!strcmp(word, "captured")) return end_capture();
	if (!strcmp(word, "green"))
		return cuGreenCtxStreamCreate(&stream, NULL, CU_STREAM_NON_BLOCKING, 0);
	if (!strcmp(word, "blocking")) return cuStreamCreate(&stream, 0);
	if (!strcmp(word, "managed"))
		return cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL);
	if (!strcmp(word, "unmanaged")) return cuMemFree(managed);
	if (!strcmp(word, "pools")) return pools();
	if (!strcmp(word, "reserved")) return reserved();
	if (!strcmp(word, "variable")) return variable();
	if (!strcmp(word, "library")) return variable_of_library();
	if (!strcmp(word, "unload library")) return cuLibraryUnload(library);
	if (!strcmp(word, "unload")) return cuModuleUnload(with_variable);
	if (!strcmp(word, "combined")) return write_combined();
	if (!strcmp(word, "future")) return future();
	if (!strncmp(word, "use ", 4)) return use(word + 4);
	if (!strcmp(word, "own handle")) return own_handle();
	if (answer == -99 && !rank_obstacle(word, &answer) && !strncmp(word, "ipc ", 4))
		return rank_open_memory(atoi(word + 4));
	return answer;
}

/* In exit(), after the driver's own handler: say so, and linger until the end of the input. */
static void exits(void)
{
	char line[64];

	if (ending)
		puts("0");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		;
}

int main(void)
{
	char line[64];

	atexit(exits);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		printf("%d\n", run(line));
		fflush(stdout);
	}
	return 0;
}
