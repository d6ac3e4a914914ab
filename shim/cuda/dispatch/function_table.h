/* SPDX-License-Identifier: Apache-2.0
 * The table of the driver's functions, generated from functions.tbl. */
#ifndef GCK_CUDA_FUNCTION_TABLE_H
#define GCK_CUDA_FUNCTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct gck_cuda_real;

struct gck_cuda_function {
	const char *name;
	void *ours;
	void **real;    /* a member of gck_cuda_real; NULL there: this driver lacks the function */
	int since;      /* the version of CUDA that introduced it; 0: unknown */
};

extern const struct gck_cuda_function gck_cuda_functions[]; /* sorted by name */
extern const size_t gck_cuda_nfunctions;

/* The function of that name; NULL: none. */
const struct gck_cuda_function *gck_cuda_by_name(const char *name);

/* The function that the driver has at that address; NULL: none. If several share it, one whose
 * name begins with `like` (NULL: any). After gck_cuda_load. */
const struct gck_cuda_function *gck_cuda_by_address(const void *real, const char *like);

/* The function that cuGetProcAddress means by a name without suffix: the latest that is not
 * later than `version`. per_thread: its variant for per-thread default streams, if it has one. */
const struct gck_cuda_function *gck_cuda_by_version(const char *name, int version, int per_thread);

/* A function's member of another such table. */
void **gck_cuda_member(struct gck_cuda_real *table, const struct gck_cuda_function *f);

/* Sort for gck_cuda_by_address. found: the driver's functions, NULL where it has none; it stays the
 * caller's. gck_cuda_load calls it once all addresses are known. */
void gck_cuda_table_sort(const struct gck_cuda_real *found);

#endif
