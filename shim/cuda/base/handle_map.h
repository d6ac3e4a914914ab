/* SPDX-License-Identifier: Apache-2.0
 * A hash table of handles (numbers that are not 0), each with a value of the caller's. No locks. */
#ifndef GCK_CUDA_HANDLE_MAP_H
#define GCK_CUDA_HANDLE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct gck_cuda_handle_map {
	struct gck_cuda_entry {
		uint64_t handle; /* 0: free */
		uint64_t value;
	} *entries;
	size_t n, capacity;
};

/* A pointer to the handle's value, valid until the next put or drop; NULL: it is not there. */
uint64_t *gck_cuda_handle_map_get(const struct gck_cuda_handle_map *s, uint64_t handle)
	GCK_MUST_CHECK;

/* The same, with the handle entered (value 0) if it is not there. NULL: no memory. */
uint64_t *gck_cuda_handle_map_put(struct gck_cuda_handle_map *s, uint64_t handle) GCK_MUST_CHECK;
void gck_cuda_handle_map_drop(struct gck_cuda_handle_map *s, uint64_t handle);

#endif
