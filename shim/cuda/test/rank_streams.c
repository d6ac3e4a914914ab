/* SPDX-License-Identifier: Apache-2.0
 * Commands about streams, kernels, captures and contexts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "shim/cuda/test/rank.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int spin_on(CUstream where, const char *kernel, unsigned int blocks)
{
	uint64_t at = (uintptr_t)rank.flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	rank.flag[0] = rank.flag[1] = 0;
	return cuModuleGetFunction(&f, rank.module, kernel) |
	       cuLaunchKernel(f, blocks, 1, 1, 1, 1, 1, 0, where, params, NULL);
}

static int spin(CUstream where)
{
	return spin_on(where, "wait_flag", 1);
}

static int spin_in_stream(void)
{
	return spin(rank.stream);
}

static int spin_in_default_stream(void)
{
	return spin(NULL);
}

static int stop_spinning(void)
{
	*rank.flag = 1;
	return 0;
}

static int query(void)
{
	return cuStreamQuery(rank.stream);
}

/* Other kernels begin after this one: it has begun itself. */
static int fill_device(void)
{
	int rc = spin_on(rank.stream, "begin_and_wait", 1024);

	while (!rc && !((volatile uint64_t *)rank.flag)[1])
		usleep(1000);
	return rc;
}

static void *synchronize(void *stream)
{
	pthread_setname_np(pthread_self(), "waiter");
	cuCtxSetCurrent(rank.context);
	cuStreamSynchronize(stream);
	return NULL;
}

static int start_waiter_for(CUstream stream)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, synchronize, stream) | pthread_detach(thread) |
	       usleep(50000);
}

static int start_waiter(void)
{
	return start_waiter_for(rank.stream);
}

static int start_default_waiter(void)
{
	return start_waiter_for(NULL);
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
	rc = cuLaunchHostFunc(rank.stream, want_lock, NULL);
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
	return cuLaunchHostFunc(rank.stream, work, (void *)(intptr_t)ms);
}

/* Queue many of them. */
static int queue(int n, int ms)
{
	int rc = 0;

	while (n--)
		rc |= work_for(ms);
	return rc;
}

static int queue_seconds(void)
{
	return queue(35, 100);
}

static int finish(void)
{
	return cuCtxSynchronize();
}

/* Queue seconds of work, and more as fast as it is done or faster, without end. */
static void *keep_ahead(void *unused)
{
	cuCtxSetCurrent(rank.context);
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

	*rank.flag = 1;
	return rc | cuStreamSynchronize(rank.stream);
}

/* Keep the stream busy for ms. */
static void *keep_busy(void *ms)
{
	cuCtxSetCurrent(rank.context);
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

static int make_blocking(void)
{
	return cuStreamCreate(&rank.stream, 0);
}

static int make_green(void)
{
	return cuGreenCtxStreamCreate(&rank.stream, NULL, CU_STREAM_NON_BLOCKING, 0);
}

/* ---- captures ------------------------------------------------------------------------------- */

static int begin_capture(void)
{
	return cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static int end_capture(void)
{
	CUgraph graph;

	return cuStreamEndCapture(rank.stream, &graph);
}

/* ---- contexts ------------------------------------------------------------------------------- */

static int stack(void)
{
	size_t size = 0;

	return cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE) ? -1 : (int)size;
}

static int new_context(void)
{
	CUcontext second;

	return cuCtxCreate(&second, NULL, 0, 0) | cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096) |
	       cuStreamCreate(&rank.stream, 0);
}

static int fail(CUcontext where)
{
	uint64_t at = (uintptr_t)rank.flag;
	void *params[] = {&at};
	CUfunction f = NULL;

	return cuCtxSetCurrent(where) | cuModuleGetFunction(&f, rank.module, "wait_flag") |
	       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 1 << 21, NULL, params, NULL) |
	       !cuCtxSynchronize();
}

/* Destroy no context (0), a destroyed one (1), a primary one (2), or one whose work has failed (3).
 * Returns 0 if that is refused. */
static int destroy(int which)
{
	CUcontext wrong[] = {NULL, NULL, rank.context, NULL};
	int rc = 0;

	if (which == 1 || which == 3)
		rc = cuCtxCreate(&wrong[which], NULL, 0, 0);
	if (which == 1)
		rc |= cuCtxDestroy(wrong[1]);
	if (which == 3)
		rc |= fail(wrong[3]);
	return rc | !cuCtxDestroy(wrong[which]) | cuCtxSetCurrent(rank.context);
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

static CUgraphExec executable;

static int make_executable(void)
{
	CUgraph graph;

	return cuGraphCreate(&graph, 0) | cuGraphInstantiateWithFlags(&executable, graph, 0) |
	       cuGraphDestroy(graph);
}

static int end_executable(void)
{
	return cuGraphExecDestroy(executable);
}

static int release(void)
{
	return cuDevicePrimaryCtxRelease(0);
}

const struct rank_command rank_stream_commands[] = {
	{"query", query},
	{"spin", spin_in_stream},
	{"spin default", spin_in_default_stream},
	{"stop", stop_spinning},
	{"work", .run_number = work_for},
	{"busy", .run_number = busy},
	{"queue", queue_seconds},
	{"finish", finish},
	{"ahead", run_ahead},
	{"behind", behind},
	{"fill device", fill_device},
	{"waiter", start_waiter},
	{"default waiter", start_default_waiter},
	{"lockstep", lockstep},
	{"destroyed", spin_and_destroy},
	{"blocking", make_blocking},
	{"apart", rank_take_stream_apart},
	{"green", make_green},
	{"capture", begin_capture},
	{"captured", end_capture},
	{"executable", make_executable},
	{"no executable", end_executable},
	{"stack", stack},
	{"context", new_context},
	{"destroy", .run_number = destroy},
	{"first context", first_context},
	{"release", release},
	{NULL},
};
