/* SPDX-License-Identifier: Apache-2.0
 * Programs that look for CUDA's functions by name in a library that they opened themselves. One that
 * opened libcuda.so.1 has this library; one that opened the driver's file by another name or by its
 * path has the driver's, and gets ours all the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/jump.h"
#include "shim/cuda/dispatch/load.h"

gck_cuda_dlsym_fn *gck_cuda_real_dlsym;

/* dlvsym is libc's: nobody stands in for it. */
gck_cuda_dlsym_fn *gck_cuda_find_dlsym(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
	void *found = (void *)gck_cuda_real_dlsym;

	for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!found) {
		fprintf(stderr, "gpuckpt: this is not glibc on x86-64: no dlsym\n");
		_exit(1);
	}
	*(void **)&gck_cuda_real_dlsym = found;
	return gck_cuda_real_dlsym;
}

static bool is_own_handle(const void *handle)
{
	static const void *own;
	Dl_info info;
	struct link_map *map;

	if (!own && dladdr1((void *)(uintptr_t)gck_cuda_dlsym, &info, (void **)&map, RTLD_DL_LINKMAP))
		own = map;
	return own && handle == own; /* in glibc a handle is the object's link_map */
}

/* Of other libraries whose names begin alike nothing is asked: that would load the driver. */
static bool is_driver_function(const void *found)
{
	const ElfW(Sym) *symbol = NULL;
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !strstr(info.dli_fname, "libcuda"))
		return false;
	gck_cuda_load();
	return dladdr1(found, &info, (void **)&map, RTLD_DL_LINKMAP) && map == gck_cuda_handle();
}

/* A name that no table lists: variables, and functions of other libraries, are what they are. */
static void *unknown(void *found, const char *name)
{
	return found && is_driver_function(found) ? gck_cuda_unknown_jump(name, found) : found;
}

/* Found in this library, which has functions that the program's driver may not have; or not found
 * here, where the driver may have more. */
static void *in_driver(const struct gck_cuda_function *f, void *found, const char *name)
{
	gck_cuda_load();
	if (!gck_cuda_handle() || (f && gck_cuda_has(*f->real)))
		return found;
	return gck_cuda_find_dlsym()(gck_cuda_handle(), name);
}

void *gck_cuda_dlsym(void *handle, const char *name)
{
	void *found = gck_cuda_find_dlsym()(handle, name);
	const struct gck_cuda_function *f;

	if (!name || name[0] != 'c' || name[1] != 'u')
		return found;
	f = gck_cuda_by_name(name);
	if (is_own_handle(handle))
		return f ? in_driver(f, found, name) : unknown(found ?: in_driver(f, found, name), name);
	if (!f)
		return unknown(found, name);
	if (!found || found == f->ours)
		return found;
	gck_cuda_load();
	return found == *f->real ? f->ours : found;
}
