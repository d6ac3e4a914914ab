/* SPDX-License-Identifier: Apache-2.0
 * What a kernel with points must not have. Nothing is guessed: what is not known to work fails. */
#ifndef GCK_KERNELS_REFUSE_H
#define GCK_KERNELS_REFUSE_H

#include "shim/kernels/pass/plan.h"

/* All but what depends on the places. Also fills plan->reached, has_barriers, has_grid, is_async,
 * warp, and the trait GCK_GRID. */
int gck_refuse_kernel(struct gck_plan *plan, struct gck_error *err) GCK_MUST_CHECK;

/* A mark in a function that is no kernel. */
int gck_refuse_marks(const struct gck_ptx *ptx, const struct gck_ptx_function *f,
		     struct gck_error *err) GCK_MUST_CHECK;

#endif
