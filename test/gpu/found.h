/* SPDX-License-Identifier: Apache-2.0
 * The driver's functions, by its library's handle: for programs that are not linked with it, since
 * it may be in another link namespace. CU(cuInit)(0) calls one. */
#ifndef GCK_TEST_GPU_FOUND_H
#define GCK_TEST_GPU_FOUND_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define FOUND_TEXT(x) #x
#define FOUND_NAME(x) FOUND_TEXT(x)
#define CU(f) (*(decltype(&f))found(FOUND_NAME(f)))

/* Of the driver's or the runtime's results: 0 is success in both. */
#define MUST(call) found_must((int)(call), #call, __LINE__)

static void *found_library; /* NULL: not opened yet */

static inline void *found(const char *name)
{
	void *f;

	if (!found_library)
		found_library = dlopen("libcuda.so.1", RTLD_NOW);
	f = dlsym(found_library, name);
	if (f)
		return f;
	printf("# no %s\n", name);
	fflush(stdout);
	_exit(4);
}

static inline void found_must(int rc, const char *call, int line)
{
	if (!rc)
		return;
	printf("# line %d: %s: %d\n", line, call, rc);
	fflush(stdout);
	_exit(5);
}

#endif
