/* SPDX-License-Identifier: Apache-2.0
 * The table of functions as the running program sees it. */
#ifndef GCK_CUDA_FUNCTION_TABLE_H
#define GCK_CUDA_FUNCTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct gck_cuda_function {
	const char *name;
	void *ours;
	void **real;    /* member of gck_cuda_real; NULL there: this driver does not have it */
	int since;      /* the version of CUDA that has it; 0: not known */
};

extern const struct gck_cuda_function gck_cuda_functions[]; /* sorted by name */
extern const size_t gck_cuda_nfunctions;

/* NULL: none has that name. */
const struct gck_cuda_function *gck_cuda_by_name(const char *name);

/* The function whose real one lies there, NULL: none. Of several, one whose name begins with `like`
 * (NULL: any). After gck_cuda_load. */
const struct gck_cuda_function *gck_cuda_by_address(const void *real, const char *like);

/* What cuGetProcAddress means by a name without suffix: the latest function of that name that is not
 * later than `version`, for per-thread default streams where it has such a variant and that is asked. */
const struct gck_cuda_function *gck_cuda_by_version(const char *name, int version, int per_thread);

/* For by_address: called by gck_cuda_load once all addresses are known. */
void gck_cuda_table_sort(void);

#endif
