/* SPDX-License-Identifier: Apache-2.0
 * Preloaded with gpu_namespace.so: the stand-in for the CUDA driver, and shim/cuda/records
 * between it and the driver's library. A program that has no work under way calls
 * gpu_engine_restart: the library ends as at a restart, a fresh one is loaded, and all that the
 * program and the stand-in hold is made again. For the part `namespace` of test/gpu/run. */
#define _GNU_SOURCE
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/records/records.h"

#define SHOWN __attribute__((visibility("default")))

/* Found by name. 0: done; -1: it was refused, or failed; a line says why. */
SHOWN int gpu_engine_restart(void);

static gck_cuda_dlsym_fn *libc_dlsym;
static struct gck_cuda_real hooks;
static void *driver; /* as the stand-in has it */

static void *find(void *library, const char *name)
{
	return libc_dlsym(library, name);
}

/* A member of another such table. */
static void **member(struct gck_cuda_real *table, const struct gck_cuda_function *f)
{
	size_t at = (size_t)((const char *)f->real - (const char *)&gck_cuda_real);

	return (void **)(void *)((char *)table + at);
}

/* The stand-in keeps a descriptor of its memory, for an agent; here is none. */
static CUresult no_export(void *fd, CUmemGenericAllocationHandle handle,
			  CUmemAllocationHandleType type, unsigned long long flags)
{
	(void)handle;
	(void)type;
	(void)flags;
	*(int *)fd = memfd_create("memory", MFD_CLOEXEC);
	return CUDA_SUCCESS;
}

/* The stand-in's hook in the library's mmap is for managed memory, which is not made again. Its
 * mappings would not be known as the library's. */
static CUresult init(unsigned flags)
{
	void (*steer)(void);

	*(void **)&steer = libc_dlsym(RTLD_DEFAULT, "gpu_ns_steer");
	steer();
	return gck_cuda_driver.cuInit(flags);
}

/* For the driver's functions the stand-in gets the hooks. */
static void *hook_or_find(void *handle, const char *name)
{
	const struct gck_cuda_function *f;

	if (!driver && gck_cuda_handle()) {
		driver = gck_cuda_handle();
		gck_cuda_records_find(&gck_cuda_driver, find, driver);
		gck_cuda_records_hook(&hooks);
		hooks.cuMemExportToShareableHandle = no_export;
		hooks.cuInit = init;
	}
	f = driver && handle == driver ? gck_cuda_by_name(name) : NULL;
	return f ? *member(&hooks, f) : libc_dlsym(handle, name);
}

/* NVML, which PyTorch loads, calls four functions once, when it is loaded. What they do is not
 * known: with GPU_ENGINE_NVML a test goes on all the same. */
static void allow_nvml(void)
{
	static const unsigned slots[] = {19, 21, 24, 25};

	for (size_t i = 0; getenv("GPU_ENGINE_NVML") && i < sizeof slots / sizeof *slots; i++)
		gck_cuda_records_allow("\x69\xa2\x8e\x9f", slots[i]);
}

static void assemble(void)
{
	allow_nvml();
	libc_dlsym = gck_cuda_find_dlsym();
	gck_cuda_real_dlsym = hook_or_find;
}

GCK_CUDA_ASSEMBLE(assemble);

/* Functions that have no hook are the fresh driver's. */
static void rebind(struct gck_cuda_real *old)
{
	for (size_t i = 0; i < gck_cuda_nfunctions; i++) {
		const struct gck_cuda_function *f = &gck_cuda_functions[i];

		if (*f->real && *f->real == *member(old, f))
			*f->real = *member(&gck_cuda_driver, f);
	}
}

static int fresh_driver(struct gck_error *err)
{
	struct gck_cuda_real old = gck_cuda_driver;
	void *(*load)(void);
	int (*end)(void);
	void *library;

	*(void **)&end = libc_dlsym(RTLD_DEFAULT, "gpu_ns_end");
	*(void **)&load = libc_dlsym(RTLD_DEFAULT, "gpu_ns_load");
	if (!load || !end || end())
		return gck_fail(err, 0, "the driver does not end");
	if (gck_cuda_records_keep(err))
		return -1;
	library = load();
	if (!library)
		return gck_fail(err, 0, "no fresh driver");
	gck_cuda_records_find(&gck_cuda_driver, find, library);
	rebind(&old);
	return gck_cuda_driver.cuInit(0) ? gck_fail(err, 0, "cuInit") : 0;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int gpu_engine_restart(void)
{
	const char *why = gck_cuda_records_unable();
	struct gck_error err = {0};
	double start = now_ms(), saved, fresh;

	if (why) {
		fprintf(stderr, "# refused: %s\n", why);
		return -1;
	}
	if (gck_cuda_records_save(&err))
		goto failed;
	saved = now_ms();
	if (fresh_driver(&err))
		goto failed;
	fresh = now_ms();
	if (gck_cuda_records_replay(&err))
		goto failed;
	fprintf(stderr, "# saved %.1f fresh %.1f made %.1f ms\n", saved - start, fresh - saved,
		now_ms() - fresh);
	return 0;
failed:
	fprintf(stderr, "# failed: %s\n", err.text);
	return -1;
}
