/* SPDX-License-Identifier: Apache-2.0
 * Questions to a driver that may be in a link namespace (namespace.c). `inside QUESTION` prints
 * lines "FACT NAME VALUE". */
#include "found.h"

#include <cuda_runtime.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdexcept>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/wait.h>
#include <time.h>

static double ms()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fact(const char *name, double v)
{
	printf("FACT %s %.3f\n", name, v);
	fflush(stdout);
}

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 p)\n"
	"{ .reg .b64 %p; .reg .b32 %x; ld.param.u64 %p, [p]; ld.u32 %x, [%p];\n"
	" add.s32 %x, %x, 1; st.u32 [%p], %x; ret; }\n";

__global__ void increment(int *p) { ++*p; }

static void context()
{
	CUcontext c;
	CUdevice d;

	MUST(CU(cuInit)(0));
	MUST(CU(cuDeviceGet)(&d, 0));
	MUST(CU(cuDevicePrimaryCtxRetain)(&c, d));
	MUST(CU(cuCtxSetCurrent)(c));
}

static int run_ptx()
{
	CUmodule m;
	CUfunction f;
	CUdeviceptr p;
	void *args[] = {&p};
	int got = -1;

	MUST(CU(cuModuleLoadDataEx)(&m, ptx, 0, NULL, NULL));
	MUST(CU(cuModuleGetFunction)(&f, m, "add"));
	MUST(CU(cuMemAlloc)(&p, 4));
	MUST(CU(cuMemsetD32)(p, 41, 1));
	MUST(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	MUST(CU(cuMemcpyDtoH)(&got, p, 4));
	MUST(CU(cuMemFree)(p));
	MUST(CU(cuModuleUnload)(m));
	return got;
}

static void basic()
{
	int *p, got;

	MUST(cudaMalloc(&p, 4));
	MUST(cudaMemset(p, 0, 4));
	increment<<<1, 1>>>(p);
	MUST(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
	fact("kernel", got);
}

/* ---- JIT ------------------------------------------------------------------------------------- */

static void jit()
{
	CUlinkState link;
	void *cubin;
	size_t size;
	CUmodule m;
	char log[4096] = "";
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};
	int rc;

	context();
	fact("ptx", run_ptx());
	MUST(CU(cuLinkCreate)(0, NULL, NULL, &link));
	MUST(CU(cuLinkAddData)(link, CU_JIT_INPUT_PTX, (void *)ptx, sizeof ptx, "p", 0, NULL,
			       NULL));
	MUST(CU(cuLinkComplete)(link, &cubin, &size));
	fact("linked_bytes", size);
	MUST(CU(cuModuleLoadData)(&m, cubin));
	MUST(CU(cuLinkDestroy)(link));
	rc = CU(cuModuleLoadDataEx)(&m, "not PTX", 2, names, values);
	fact("bad_image", rc);
	rc = CU(cuModuleLoadDataEx)(&m, ".version 7.0\n.target sm_70\n.address_size 64\nbad;\n", 2,
				    names, values);
	fact("bad_ptx", rc);
	printf("FACT log %.60s\n", log);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void fork_here()
{
	int *p, got, status = 0;
	pid_t child;

	MUST(cudaMalloc(&p, 4));
	fflush(stdout);
	child = fork();
	if (!child) {
		alarm(10);
		printf("FACT child_cuCtxSynchronize %d\n", (int)CU(cuCtxSynchronize)());
		printf("FACT child_cudaMalloc %d\n", (int)cudaMalloc(&p, 4));
		printf("FACT child_cuInit %d\n", (int)CU(cuInit)(0));
		printf("FACT child_allocates %d\n", malloc(100000) != NULL);
		fflush(stdout);
		exit(7);
	}
	waitpid(child, &status, 0);
	fact("child_status", status);
	MUST(cudaMemset(p, 0, 4));
	increment<<<1, 1>>>(p);
	MUST(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
	fact("parent_kernel", got);
	fact("system", system("true"));
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static pthread_key_t key;
static int destroyed, local_destroyed;

struct counted {
	~counted() { local_destroyed++; }
	int x = 1;
};
static thread_local counted local;
static thread_local int seen;

static void destroy(void *) { destroyed++; }

static void CUDART_CB callback(void *arg)
{
	const char *what = (const char *)arg;

	seen++;
	if (!strcmp(what, "ctype"))
		printf("FACT cb_isalpha %d %d\n", isalpha('a') != 0, toupper('b'));
	if (!strcmp(what, "strtod"))
		printf("FACT cb_strtod %g %s\n", strtod("2.5", NULL), std::to_string(3.5).c_str());
	if (!strcmp(what, "throw")) {
		try {
			throw std::runtime_error("x");
		} catch (const std::exception &e) {
			printf("FACT cb_caught %s\n", e.what());
		}
	}
	if (!strcmp(what, "local")) {
		local.x++;
		printf("FACT cb_setspecific %d\n", pthread_setspecific(key, &key));
		errno = 5;
		printf("FACT cb_getspecific %d\n", pthread_getspecific(key) == &key);
	}
	if (!strcmp(what, "malloc"))
		printf("FACT cb_malloc %d\n", malloc(1 << 20) && malloc(100));
	if (!strcmp(what, "thread")) {
		pthread_t t;
		int rc = pthread_create(&t, NULL, [](void *p) -> void * { return p; }, NULL);

		printf("FACT cb_thread %d %d\n", rc, pthread_join(t, NULL));
	}
	fflush(stdout);
}

static void callbacks(const char *what)
{
	int *p;

	pthread_key_create(&key, destroy);
	MUST(cudaMalloc(&p, 4));
	for (int i = 0; i < 3; i++) {
		MUST(cudaLaunchHostFunc(0, callback, (void *)what));
		MUST(cudaDeviceSynchronize());
	}
	fact("cb_done", 1);
	MUST(cudaDeviceReset());
	fact("cb_key_destructors", destroyed);
	fact("cb_thread_local_destructors", local_destroyed);
}

/* ---- exit ------------------------------------------------------------------------------------ */

static void say_at_exit(const char *when)
{
	printf("FACT exit_%s cuCtxSynchronize %d\n", when, (int)CU(cuCtxSynchronize)());
	fflush(stdout);
}

static bool exits;

static void before() { say_at_exit("registered_before"); }
static void after() { say_at_exit("registered_after"); }

__attribute__((destructor)) static void destructor()
{
	if (exits)
		say_at_exit("destructor");
}

static void at_exit()
{
	exits = true;
	found("cuInit");
	atexit(before);
	context();
	atexit(after);
	fact("context", 1);
	exit(0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The driver's fixed ranges of addresses are one process's only once. */
static void two()
{
	context();
	fact("first_copy", run_ptx());
	found_library = dlmopen(LM_ID_NEWLM, getenv("GPUCKPT_CUDA_LIBRARY"), RTLD_NOW);
	fact("second_copy_cuInit", found_library ? CU(cuInit)(0) : -1);
}

/* 64 MiB at the same address each time. */
static CUdeviceptr fixed_memory()
{
	const CUdeviceptr at = 0x600000000000ull;
	const size_t size = (size_t)64 << 20;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUdeviceptr p;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(CU(cuMemAddressReserve)(&p, size, 0, at, 0));
	MUST(p != at);
	MUST(CU(cuMemCreate)(&h, size, &prop, 0));
	MUST(CU(cuMemMap)(p, size, 0, h, 0));
	MUST(CU(cuMemSetAccess)(p, size, &access, 1));
	return p;
}

/* A copy that ends as at a restart, and a fresh one, again and again. */
static void reload(int times)
{
	void *(*load)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "gpu_ns_load");
	int (*end)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gpu_ns_end");
	double least = 1e9;

	found_library = dlopen("libcuda.so.1", RTLD_NOW);
	for (int i = 0; i < times; i++) {
		double start = ms();
		CUdeviceptr p;
		int got = -1;

		if (i)
			found_library = load();
		context();
		got = run_ptx();
		if (i && ms() - start < least)
			least = ms() - start;
		p = fixed_memory();
		MUST(CU(cuMemsetD32)(p, i + got, 1000));
		MUST(CU(cuMemcpyDtoH)(&got, p, 4));
		if (got != i + 42 || end()) {
			fact("failed_reload", i);
			return;
		}
	}
	fact("reloads", times);
	printf("namespace_load_to_kernel %.0f ms\n", least);
}

/* ---- the driver's checkpoint ----------------------------------------------------------------- */

static void own_checkpoint()
{
	CUcheckpointLockArgs limit = {};
	int rc;

	context();
	fact("ptx", run_ptx());
	limit.timeoutMs = 3000;
	fact("lock", rc = CU(cuCheckpointProcessLock)(getpid(), &limit));
	if (!rc)
		fact("checkpoint", rc = CU(cuCheckpointProcessCheckpoint)(getpid(), NULL));
	if (!rc)
		fact("restore", rc = CU(cuCheckpointProcessRestore)(getpid(), NULL));
	fact("unlock", CU(cuCheckpointProcessUnlock)(getpid(), NULL));
	fact("ptx_after", run_ptx());
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "basic";

	if (!strcmp(what, "basic"))
		basic();
	else if (!strcmp(what, "jit"))
		jit();
	else if (!strcmp(what, "fork"))
		fork_here();
	else if (!strcmp(what, "callback"))
		callbacks(argv[2]);
	else if (!strcmp(what, "exit"))
		at_exit();
	else if (!strcmp(what, "two"))
		two();
	else if (!strcmp(what, "reload"))
		reload(atoi(argv[2]));
	else if (!strcmp(what, "checkpoint"))
		own_checkpoint();
	return 0;
}
