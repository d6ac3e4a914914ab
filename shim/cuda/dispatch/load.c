/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "config.h"

#include "shim/cuda/dispatch/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/ld_cache.h"
#include "shim/cuda/real.h"
#include "shim/inside/gate.h"
#include "shim/inside/library.h"

/* ---- which file ----------------------------------------------------------------------------- */

#define LIBRARY "libcuda.so.1"

/* Look in the loader's folders. Asking the loader would return this library, which has that name
 * already. */

static int in_default_folders(const char *name, char *path, unsigned long size)
{
	static const char *const folders[] = {
		"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
		"/lib", "/usr/lib",
	};

	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		int n = snprintf(path, size, "%s/%s", folders[i], name);

		if (n > 0 && (size_t)n < size && access(path, R_OK) == 0 &&
		    !gck_inside_is_own(path))
			return 0;
	}
	return -1;
}

/* Find the file that the program would have loaded by that name. */
static int find(const char *name, char *path, unsigned long size, struct gck_error *err)
{
	const struct gck_inside_library library = {
		.soname = name, .prefix = "libcuda.so", .variable = GCK_CUDA_LIBRARY_VARIABLE,
	};

	if (gck_inside_find(&library, path, size, err))
		return -1;
	if (strchr(path, '/'))
		return 0;
	if (gck_cuda_cache_find(NULL, name, path, size) == 0 && !gck_inside_is_own(path))
		return 0;
	if (in_default_folders(name, path, size) == 0)
		return 0;
	return gck_fail(err, ENOENT,
			"no %s in the loader's places: install NVIDIA's driver, or name "
			"its library in %s",
			name, library.variable);
}

/* ---- loading -------------------------------------------------------------------------------- */

bool gck_cuda_is_loaded;

/* The linker's names for the ends of the section; NULL in tests that link no upper folder. */
extern void (*const __start_gck_cuda_assemble[])(void) __attribute__((weak));
extern void (*const __stop_gck_cuda_assemble[])(void) __attribute__((weak));

static const struct gck_cuda_loader plain;

static struct {
	pthread_mutex_t lock; /* recursive: a library that is loaded may call dlsym for CUDA's
			       * names */
	bool begun;
	void *handle;
	char path[PATH_MAX];  /* of the driver's library */
	const struct gck_cuda_loader *by;
	struct gck_cuda_real found;
} load = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, .by = &plain};

static CUresult no_driver(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult no_function(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static int open_library(struct gck_error *err)
{
	if (load.by->open) {
		load.handle = load.by->open(load.path, err);
		return load.handle ? 0 : -1;
	}
	load.handle = dlopen(load.path, RTLD_NOW | RTLD_LOCAL);
	return load.handle ? 0 : gck_fail(err, ENOENT, "%s", dlerror());
}

/* A node without a driver is normal and gets no message; a library that the user named gets one. */
static void open_first(void)
{
	struct gck_error err = {0};

	if (find(LIBRARY, load.path, sizeof load.path, &err)) {
		if (getenv(GCK_CUDA_LIBRARY_VARIABLE))
			fprintf(stderr, "gpuckpt: %s\n", err.text);
		return;
	}
	if (open_library(&err))
		fprintf(stderr, "gpuckpt: the CUDA driver's library cannot be loaded: %s\n",
			err.text);
}

/* Other threads may read the addresses only when all are known. */
static void bind(void)
{
	static struct gck_cuda_real table;

	for (size_t i = 0; i < gck_cuda_nfunctions; i++)
		*gck_cuda_member(&load.found, &gck_cuda_functions[i]) =
			load.handle ? gck_cuda_real_dlsym(load.handle, gck_cuda_functions[i].name)
				    : NULL;
	gck_cuda_table_sort(&load.found);
	table = load.found;
	if (load.handle && load.by->hook)
		load.by->hook(&table, &load.found);
	for (size_t i = 0; i < gck_cuda_nfunctions; i++) {
		if (!*gck_cuda_member(&load.found, &gck_cuda_functions[i]))
			*gck_cuda_member(&table, &gck_cuda_functions[i]) =
				load.handle ? (void *)no_function : (void *)no_driver;
	}
	gck_cuda_real = table;
}

static void assemble(void)
{
	size_t n = (size_t)(__stop_gck_cuda_assemble - __start_gck_cuda_assemble);

	for (size_t i = 0; i < n; i++)
		__start_gck_cuda_assemble[i]();
}

void gck_cuda_load_now(void)
{
	pthread_mutex_lock(&load.lock);
	if (!load.begun) {
		load.begun = true;
		assemble();
		gck_cuda_find_dlsym();
		open_first();
		bind();
		if (load.by->loaded)
			load.by->loaded();
		__atomic_store_n(&gck_cuda_is_loaded, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&load.lock);
}

void gck_cuda_load_by(const struct gck_cuda_loader *loader)
{
	load.by = loader;
}

int gck_cuda_load_again(struct gck_error *err)
{
	if (find(LIBRARY, load.path, sizeof load.path, err) || open_library(err))
		return -1;
	bind();
	if (gck_cuda_unknown_again(err))
		return -1;
	if (load.by->loaded)
		load.by->loaded();
	return 0;
}

void gck_cuda_raw_load(void)
{
	gck_cuda_load();
}

void *gck_cuda_handle(void)
{
	return load.handle;
}

const char *gck_cuda_library(void)
{
	return load.path;
}

bool gck_cuda_has(const void *real)
{
	return real != no_function && real != no_driver;
}

static void load_if_needed(void)
{
	gck_cuda_load();
}

static void admitted(pthread_t thread)
{
	if (load.by->admitted)
		load.by->admitted(thread);
}

const struct gck_gate_owner gck_gate_owner = {.admit = load_if_needed, .admitted = admitted};

bool gck_cuda_is_apart(const char *file)
{
	char driver[PATH_MAX], found[PATH_MAX];
	struct gck_error err;
	struct stat own, st;

	if (!strchr(file, '/')) {
		if (!strcmp(file, LIBRARY) || find(file, found, sizeof found, &err))
			return false;
		file = found;
	}
	if (find(LIBRARY, driver, sizeof driver, &err) || stat(driver, &own) || stat(file, &st) ||
	    st.st_dev != own.st_dev || st.st_ino != own.st_ino)
		return false;
	gck_cuda_load();
	return load.by->open;
}
