/* SPDX-License-Identifier: Apache-2.0
 * Dominators, loops, and where the threads of a warp may be apart. The node behind the last block
 * is the function's end. */
#ifndef GCK_KERNELS_GRAPH_H
#define GCK_KERNELS_GRAPH_H

#include "shim/kernels/flow/flow.h"

/* Edges of each node: to[first[i]] to before to[first[i + 1]]. */
struct gck_edges {
	uint32_t *first, *to;
};

struct gck_loop {
	uint32_t header;
	uint64_t *body; /* a set of blocks */
	uint32_t size;
	bool is_outermost;
};

struct gck_graph {
	const struct gck_flow *flow;
	uint32_t n; /* nodes */
	struct gck_edges to, from;
	uint32_t *dominator, *post_dominator; /* immediate; GCK_NONE: none */
	struct gck_loop *loops;               /* smallest first */
	size_t n_loops;
	uint64_t *apart;   /* blocks that the threads of a warp may not reach together */
	uint64_t *parting; /* at whose end they part */
};

/* -1 and err if there is no memory; call gck_graph_clear in any case. */
int gck_graph_make(struct gck_graph *graph, const struct gck_flow *flow,
		   struct gck_error *err) GCK_MUST_CHECK;
void gck_graph_clear(struct gck_graph *graph);

#endif
