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

/* The real library's handle for dlsym, NULL: there is none. */
void *gck_cuda_handle(void);

/* And its path; "": there is none. */
const char *gck_cuda_library(void);

/* Does the driver have the function that this member of gck_cuda_real stands for? Before a call of
 * one that older drivers lack. */
bool gck_cuda_has(const void *real);

/* find.c: 0 and the path; -1: there is no driver here, or not where this variable says. */
#define GCK_CUDA_LIBRARY_VARIABLE "GPUCKPT_CUDA_LIBRARY"
struct gck_error;
int gck_cuda_find(char *path, unsigned long size, struct gck_error *err);

/* cache.c: the file that the loader's cache (NULL: /etc/ld.so.cache) has for a library's name. */
int gck_cuda_cache_find(const char *cache, const char *name, char *path, unsigned long size);

#endif
