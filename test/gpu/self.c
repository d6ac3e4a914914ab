/* SPDX-License-Identifier: Apache-2.0
 * Loaded by a program: a thread that has the driver checkpoint the program's process when
 * gpu_lineage orders it, by files in the directory GPUCKPT_SELF ("go", "resume"; the answers are
 * "ready" and "done"). It does the work of the shim's CUDA thread. A program may define gpu_drain
 * and gpu_fill, which are called when its own memory must be unmapped and when it can be mapped
 * again. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_DEVICES 8

static char directory[256];

/* The driver's functions, by the names that it exports. */
static struct {
	CUresult (*init)(unsigned);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set_current)(CUcontext);
	CUresult (*get_limit)(size_t *, CUlimit);
	CUresult (*set_limit)(CUlimit, size_t);
	CUresult (*lock)(int, CUcheckpointLockArgs *);
	CUresult (*checkpoint)(int, CUcheckpointCheckpointArgs *);
	CUresult (*restore)(int, CUcheckpointRestoreArgs *);
	CUresult (*unlock)(int, CUcheckpointUnlockArgs *);
	CUresult (*count)(int *);
	CUresult (*uuid)(CUuuid *, CUdevice);
} driver;

static bool load(void)
{
	static const struct {
		const char *name;
		void **slot;
	} all[] = {
		{"cuInit", (void **)&driver.init},
		{"cuDevicePrimaryCtxRetain", (void **)&driver.retain},
		{"cuCtxSetCurrent", (void **)&driver.set_current},
		{"cuCtxGetLimit", (void **)&driver.get_limit},
		{"cuCtxSetLimit", (void **)&driver.set_limit},
		{"cuCheckpointProcessLock", (void **)&driver.lock},
		{"cuCheckpointProcessCheckpoint", (void **)&driver.checkpoint},
		{"cuCheckpointProcessRestore", (void **)&driver.restore},
		{"cuCheckpointProcessUnlock", (void **)&driver.unlock},
		{"cuDeviceGetCount", (void **)&driver.count},
		{"cuDeviceGetUuid_v2", (void **)&driver.uuid},
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	for (size_t i = 0; library && i < sizeof all / sizeof all[0]; i++)
		if (!(*all[i].slot = dlsym(library, all[i].name)))
			return false;
	return library != NULL;
}

static void path_of(const char *name, char path[300])
{
	snprintf(path, 300, "%s/%s", directory, name);
}

static void wait_for(const char *name)
{
	char path[300];

	path_of(name, path);
	while (unlink(path))
		usleep(1000);
}

static void say(const char *name)
{
	char path[300];

	path_of(name, path);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void must(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "# %s: error %d of the driver\n", what, (int)result);
	_exit(9);
}

static void call(const char *hook)
{
	void (*function)(void) = dlsym(RTLD_DEFAULT, hook);

	if (function)
		function();
}

static void look_at_devices(CUuuid uuids[MOST_DEVICES], int *n)
{
	must(driver.count(n), "devices");
	for (int i = 0; i < *n && i < MOST_DEVICES; i++)
		must(driver.uuid(&uuids[i], i), "UUID");
}

/* With GPUCKPT_SELF_SWAP every device comes back as the next one. */
static void restore(const CUuuid uuids[MOST_DEVICES], int n)
{
	CUcheckpointGpuPair pairs[MOST_DEVICES];
	CUcheckpointRestoreArgs args = {.gpuPairs = pairs, .gpuPairsCount = (unsigned)n};
	CUuuid now[MOST_DEVICES];

	for (int i = 0; i < n; i++)
		pairs[i] = (CUcheckpointGpuPair){.oldUuid = uuids[i],
						 .newUuid = uuids[(i + 1) % n]};
	must(driver.restore(getpid(), getenv("GPUCKPT_SELF_SWAP") ? &args : NULL), "restore");
	must(driver.unlock(getpid(), NULL), "unlock");
	look_at_devices(now, &n);
	if (getenv("GPUCKPT_SELF_SWAP") && memcmp(&now[0], &uuids[1 % n], sizeof now[0]))
		must(CUDA_ERROR_INVALID_DEVICE, "the first device after the restore");
}

static void checkpoint_once(void)
{
	CUcheckpointLockArgs limit = {.timeoutMs = 5000};
	CUuuid uuids[MOST_DEVICES];
	int devices;
	size_t stack = 0;
	CUcontext context;

	wait_for("go");
	must(driver.init(0), "init");
	must(driver.retain(&context, 0), "context");
	must(driver.set_current(context), "context");
	look_at_devices(uuids, &devices);
	call("gpu_drain");
	must(driver.get_limit(&stack, CU_LIMIT_STACK_SIZE), "stack limit");
	must(driver.set_limit(CU_LIMIT_STACK_SIZE, 16), "stack limit");
	must(driver.lock(getpid(), &limit), "lock");
	must(driver.checkpoint(getpid(), NULL), "checkpoint");
	say("ready");
	wait_for("resume");
	restore(uuids, devices);
	must(driver.set_limit(CU_LIMIT_STACK_SIZE, stack), "stack limit");
	call("gpu_fill");
	say("done");
}

static void *serve(void *unused)
{
	while (load())
		checkpoint_once();
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	const char *where = getenv("GPUCKPT_SELF");
	pthread_t thread;

	if (!where || strlen(where) >= sizeof directory)
		return;
	strcpy(directory, where);
	pthread_create(&thread, NULL, serve, NULL);
}
