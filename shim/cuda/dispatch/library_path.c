/* SPDX-License-Identifier: Apache-2.0
 * Which file the program would have got for libcuda.so.1. The loader would answer with this library,
 * which has that name already, so all places are looked at here. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/dispatch/load.h"
#include "shim/inside/library.h"

#define LIBRARY "libcuda.so.1"

static int in_default_folders(char *path, unsigned long size)
{
	static const char *const folders[] = {
		"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
		"/lib", "/usr/lib",
	};

	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		int n = snprintf(path, size, "%s/%s", folders[i], LIBRARY);

		if (n > 0 && (size_t)n < size && access(path, R_OK) == 0 &&
		    !gck_inside_is_own(path))
			return 0;
	}
	return -1;
}

int gck_cuda_find(char *path, unsigned long size, struct gck_error *err)
{
	static const struct gck_inside_library library = {
		.soname = LIBRARY, .prefix = "libcuda.so", .variable = GCK_CUDA_LIBRARY_VARIABLE,
	};

	if (gck_inside_find(&library, path, size, err))
		return -1;
	if (strchr(path, '/'))
		return 0;
	if (gck_cuda_cache_find(NULL, LIBRARY, path, size) == 0 && !gck_inside_is_own(path))
		return 0;
	if (in_default_folders(path, size) == 0)
		return 0;
	return gck_fail(err, ENOENT, "no %s in the loader's places: install NVIDIA's driver, or name "
			"its library in %s", LIBRARY, library.variable);
}
