/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_CUDA_LD_CACHE_H
#define GCK_CUDA_LD_CACHE_H

/* The file that the loader's cache (NULL: /etc/ld.so.cache) has for a library's name, which the caller may read.
 * -1: it has none, or path is too small. */
int gck_cuda_cache_find(const char *cache, const char *name, char *path, unsigned long size);

#endif
