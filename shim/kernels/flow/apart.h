/* SPDX-License-Identifier: Apache-2.0
 * Which blocks some threads may reach apart: those between a branch on a value that differs among
 * threads and the place where all its ways meet again. */
#ifndef GCK_KERNELS_APART_H
#define GCK_KERNELS_APART_H

#include "shim/kernels/flow/graph.h"

/* Stores the set of blocks into apart, for free(), and into parting (NULL: not wanted) those at
 * whose end the threads part. equal: the trait of instructions that give equal results to threads
 * whose operands are equal: GCK_UNIFORM for a warp, GCK_PURE for a block. A branch does not part
 * threads of which all that go one way reach no block of `towards`; NULL: each does. */
int gck_apart_find(const struct gck_graph *graph, unsigned equal, const bool *towards,
		   uint64_t **apart, uint64_t **parting, struct gck_error *err) GCK_MUST_CHECK;

/* Stores into awaited whether a thread that stays in this block for ever keeps the others of its
 * warp from nothing but one barrier of the block, and into barrier its statement (GCK_NONE: they
 * come to none): from each branch that parted them all come to it, or to the end, before a
 * statement of `stops`, and have come to none since. */
int gck_apart_awaited(const struct gck_graph *graph, uint32_t block, const bool *stops,
		      bool *awaited, uint32_t *barrier, struct gck_error *err) GCK_MUST_CHECK;

#endif
