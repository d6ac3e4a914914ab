/* SPDX-License-Identifier: Apache-2.0
 * The real libcuda.so.1: loaded at the program's first call, beside this library, by its path. */
#ifndef GCK_CUDA_LOAD_H
#define GCK_CUDA_LOAD_H

#include <stdbool.h>

extern bool gck_cuda_is_loaded; /* read by gck_cuda_load alone */

/* Never fails: without a driver every function answers CUDA_ERROR_NO_DEVICE, one that the driver does
 * not have CUDA_ERROR_NOT_FOUND. */
void gck_cuda_load_now(void) __attribute__((cold));

static inline void gck_cuda_load(void)
{
	if (__builtin_expect(!__atomic_load_n(&gck_cuda_is_loaded, __ATOMIC_ACQUIRE), 0))
		gck_cuda_load_now();
}

/* Calls `then` once, when the real library is loaded, before any of its functions is called; at once
 * if it is loaded already. */
void gck_cuda_load_then(void (*then)(void));

/* The same for a jump of raw.S, at its first call. */
void gck_cuda_raw_load(void);

/* The real library's handle for dlsym, NULL: there is none. */
void *gck_cuda_handle(void);

/* And its path; "": there is none. */
const char *gck_cuda_library(void);

/* Does the driver have the function that this member of gck_cuda_real stands for? Before a call of
 * one that older drivers lack. */
bool gck_cuda_has(const void *real);

/* The variable that names the driver's library for tests, and where it is in no usual place. */
#define GCK_CUDA_LIBRARY_VARIABLE "GPUCKPT_CUDA_LIBRARY"

#endif
