/* SPDX-License-Identifier: Apache-2.0
 * The places of a kernel where its threads can leave it and come back. */
#ifndef GCK_KERNELS_PLAN_H
#define GCK_KERNELS_PLAN_H

#include "shim/kernels/flow/graph.h"
#include "shim/kernels/pass/recompute.h"
#include "shim/kernels/pass/variables.h"

enum gck_place_kind {
	GCK_PLACE_ENTRY,   /* the kernel's begin; always place 1 */
	GCK_PLACE_MARK,    /* at the statement, a point */
	GCK_PLACE_BEFORE,  /* before the statement */
	GCK_PLACE_BARRIER, /* at the statement; who waits there is saved as waiting */
};

struct gck_place {
	enum gck_place_kind kind;
	uint32_t statement;
	bool waits;    /* a point in a loop whose end depends on other threads */
	bool is_alone; /* each thread leaves by itself, though those of a warp leave together */
	uint32_t barrier; /* the statement at which it does so, with its warp; GCK_NONE: here */
};

struct gck_plan {
	struct gck_flow flow;
	struct gck_graph graph;
	struct gck_variables variables;
	struct gck_recompute recompute;
	struct gck_place *places; /* place i + 1; by statement */
	size_t n_places;
	bool *reached;       /* functions of the module: the kernel, and what it calls */
	bool has_points;     /* else nothing is to be done, and all below is unset */
	bool has_barriers, is_async;
	bool has_grid;       /* statements of trait GCK_GRID */
	bool *stays;         /* statements: barriers that stay as they are (lockstep.h) */
	uint32_t warp;       /* a statement that a warp does together; GCK_NONE */
	bool is_together;    /* the threads of a warp leave together, where they are not alone */
	bool is_aligned;     /* whole warps come to barriers, also if they leave */
	uint64_t record_size; /* of a thread: the largest of the places */
	bool needs_barrier;  /* a thread that leaves meets the others of its block */
};

/* Where a kernel's points are: marks and, if is_auto, the begins of its outermost loops. -1 and
 * err, with file and line, if it has points and cannot be saved at one of them. Call gck_plan_clear
 * in any case. */
int gck_plan_make(struct gck_plan *plan, const struct gck_ptx *ptx, size_t function, bool is_auto,
		  struct gck_error *err) GCK_MUST_CHECK;
void gck_plan_clear(struct gck_plan *plan);

/* Whether a thread that leaves alone at a place comes to this barrier, with its warp, and all of
 * the block leave there. (A thread that left its warp's code for a barrier of its own was missed by
 * its warp, which waited for it where the loop ends: seen on an H200.) */
bool gck_plan_meets(const struct gck_place *place, const struct gck_place *barrier);

#endif
