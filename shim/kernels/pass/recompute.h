/* SPDX-License-Identifier: Apache-2.0
 * Registers that a launch that goes on computes again, instead of loading them: those that follow
 * from the kernel's parameters, the thread's place in the grid, addresses of variables and
 * constants alone. That a value is not saved leaves ptxas free to keep it where it likes, as in the
 * kernel without points. */
#ifndef GCK_KERNELS_RECOMPUTE_H
#define GCK_KERNELS_RECOMPUTE_H

#include "shim/kernels/flow/flow.h"

struct gck_recompute {
	uint32_t *order; /* statements, each behind those that it needs */
	size_t n;
	uint64_t *registers; /* a set: what they write */
};

/* -1 and err if there is no memory; call gck_recompute_clear in any case. */
int gck_recompute_find(struct gck_recompute *r, const struct gck_flow *flow,
		       struct gck_error *err) GCK_MUST_CHECK;
void gck_recompute_clear(struct gck_recompute *r);

/* Adds to `wanted` (flow->words) what must be computed first. Then those statements of the order
 * that write a register of it compute all that can be computed. */
void gck_recompute_close(const struct gck_recompute *r, const struct gck_flow *flow,
			 uint64_t *wanted);

#endif
