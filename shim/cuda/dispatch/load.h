/* SPDX-License-Identifier: Apache-2.0
 * The real libcuda.so.1, loaded by its path at the program's first call, beside this library. */
#ifndef GCK_CUDA_LOAD_H
#define GCK_CUDA_LOAD_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"

extern bool gck_cuda_is_loaded; /* for gck_cuda_load alone */

/* Load the real library. Never fails: without a driver every function returns
 * CUDA_ERROR_NO_DEVICE; functions that the driver lacks return CUDA_ERROR_NOT_FOUND. */
void gck_cuda_load_now(void) __attribute__((cold));

static inline void gck_cuda_load(void)
{
	if (__builtin_expect(!__atomic_load_n(&gck_cuda_is_loaded, __ATOMIC_ACQUIRE), 0))
		gck_cuda_load_now();
}

/* How the library is loaded, and what stands before its functions. */
struct gck_cuda_real;
struct gck_cuda_loader {
	/* Returns its handle for dlsym; NULL: it cannot be loaded. NULL: by dlopen. */
	void *(*open)(const char *path, struct gck_error *err);
	/* Changes the table of functions that are called, which has the driver's. found: the same,
	 * NULL where the driver has none; stays. NULL: nothing does. */
	void (*hook)(struct gck_cuda_real *table, const struct gck_cuda_real *found);
	/* Called when it is loaded, before any of its functions is called. */
	void (*loaded)(void);
	/* As gck_gate_owner's. NULL: nothing to do. */
	void (*admitted)(pthread_t thread);
};

/* For a function of GCK_CUDA_ASSEMBLE. The table stays the caller's. */
void gck_cuda_load_by(const struct gck_cuda_loader *loader);

/* Load it again in a restored process, in which it is dead, with the gate closed. */
GCK_MUST_CHECK int gck_cuda_load_again(struct gck_error *err);

/* Have gck_cuda_load call the function first of all: it gives lower folders their tables of upper
 * functions. The linker collects these functions. A constructor would be too late: those of other
 * libraries run before this library's, and may call CUDA. */
#define GCK_CUDA_ASSEMBLE(function) \
	static void (*const function##_at_load)(void) \
		__attribute__((section("gck_cuda_assemble"), used)) = function

/* The same, for the first call of a jump of raw.S. */
void gck_cuda_raw_load(void);

/* The real library's handle for dlsym; NULL: there is none. */
void *gck_cuda_handle(void);

/* Its path; "": there is none. */
const char *gck_cuda_library(void);

/* Whether a path, or a name as dlopen looks for it, leads to that file, and dlopen would not find
 * it loaded. */
bool gck_cuda_is_apart(const char *file);

/* Whether the driver has the function that this member of gck_cuda_real stands for. Ask before a
 * call of a function that older drivers lack. */
bool gck_cuda_has(const void *real);

/* An environment variable: the path of the driver's library, for tests and unusual places. */
#define GCK_CUDA_LIBRARY_VARIABLE "GPUCKPT_CUDA_LIBRARY"

#endif
