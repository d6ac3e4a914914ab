/* SPDX-License-Identifier: Apache-2.0
 * Barriers that stay as they are: no thread can be asked to leave between them and the barriers
 * before, so all threads of the block come to them. */
#ifndef GCK_KERNELS_LOCKSTEP_H
#define GCK_KERNELS_LOCKSTEP_H

#include "shim/kernels/flow/graph.h"

/* Stores into stays, for free(), whether statement i is such a barrier, or in inline assembly with
 * it. points: the statements before which threads can leave. All barriers but those that stay get
 * the code to leave. */
int gck_lockstep_find(const struct gck_graph *graph, const bool *points, bool **stays,
		      struct gck_error *err) GCK_MUST_CHECK;

#endif
