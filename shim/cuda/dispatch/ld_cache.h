/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_CUDA_LD_CACHE_H
#define GCK_CUDA_LD_CACHE_H

#include "common/base/error.h"

/* Find a library's file in the loader's cache (NULL: /etc/ld.so.cache). -1: it is not listed,
 * cannot be read, or path is too small. */
int gck_cuda_cache_find(const char *cache, const char *name, char *path, unsigned long size)
	GCK_MUST_CHECK;

#endif
