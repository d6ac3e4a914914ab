/* SPDX-License-Identifier: Apache-2.0
 * The shared and local variables that a kernel saves. */
#ifndef GCK_KERNELS_VARIABLES_H
#define GCK_KERNELS_VARIABLES_H

#include "shim/kernels/ptx/ptx.h"

struct gck_variable {
	uint32_t name;   /* token */
	uint64_t size;   /* bytes; 0: as many as the launch says (.extern .shared) */
	uint32_t unit;   /* bytes that are copied at once */
	uint64_t offset; /* shared: in the block's record; dynamic: the last */
};

struct gck_variables {
	struct gck_variable *shared, *local;
	size_t n_shared, n_local;
	uint64_t shared_size; /* without dynamic, a multiple of 16 */
	bool is_dynamic;
};

/* Those of the kernel, and those of the module that it or a function of `reached` (by index of
 * ptx->functions) names. Call gck_variables_clear in any case. */
int gck_variables_find(struct gck_variables *v, const struct gck_ptx *ptx,
		       const struct gck_ptx_function *kernel, const bool *reached,
		       struct gck_error *err) GCK_MUST_CHECK;
void gck_variables_clear(struct gck_variables *v);

#endif
