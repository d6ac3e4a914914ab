/* SPDX-License-Identifier: Apache-2.0
 * Dominators as in Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001). */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/apart.h"

static uint32_t last_of(const struct gck_flow *flow, uint32_t block)
{
	return flow->blocks[block].last - 1;
}

/* Whether a block's end may be the function's end. */
static bool may_end(const struct gck_flow *flow, uint32_t block)
{
	return (flow->traits[last_of(flow, block)] & GCK_ENDS) ||
	       !flow->blocks[block].n_successors;
}

/* The edges from each node from those to it: first counted, then filled in behind each other. */
static void turn(struct gck_graph *g, size_t n)
{
	uint32_t *fill = g->from.first + 1;

	for (size_t i = 0; i < n; i++)
		fill[g->to.to[i] + 1]++;
	for (uint32_t b = 1; b <= g->n; b++)
		fill[b] += fill[b - 1];
	for (uint32_t b = 0; b < g->n; b++)
		for (uint32_t i = g->to.first[b]; i < g->to.first[b + 1]; i++)
			g->from.to[fill[g->to.to[i]]++] = b;
}

static int make_edges(struct gck_graph *g, struct gck_error *err)
{
	const struct gck_flow *f = g->flow;
	size_t n = 0, all = f->n_successors + f->n_blocks + 1;

	g->to = (struct gck_edges){ calloc(g->n + 1, 4), calloc(all, 4) };
	g->from = (struct gck_edges){ calloc(g->n + 3, 4), calloc(all, 4) };
	if (!g->to.first || !g->to.to || !g->from.first || !g->from.to)
		return gck_fail(err, ENOMEM, "no memory for %zu branches", all);
	for (uint32_t b = 0; b < f->n_blocks; b++) {
		g->to.first[b] = n;
		for (uint32_t i = 0; i < f->blocks[b].n_successors; i++)
			g->to.to[n++] = f->successors[f->blocks[b].successor + i];
		if (may_end(f, b))
			g->to.to[n++] = f->n_blocks;
	}
	g->to.first[g->n - 1] = g->to.first[g->n] = n;
	turn(g, n);
	return 0;
}

struct order {
	uint32_t *nodes, n; /* in postorder */
	uint32_t *number;   /* of a node in it; GCK_NONE: not reached */
};

static int post_order(const struct gck_edges *edges, uint32_t n, uint32_t root, struct order *o)
{
	uint32_t *stack = calloc(n + 1, 4), *next = calloc(n + 1, 4), depth = 0;
	uint8_t *seen = calloc(n + 1, 1);

	*o = (struct order){ calloc(n + 1, 4), 0, malloc((n + 1) * 4) };
	if (!stack || !next || !seen || !o->nodes || !o->number) {
		free(stack);
		free(next);
		free(seen);
		return -1;
	}
	memset(o->number, 0xff, (n + 1) * 4);
	stack[depth++] = root;
	seen[root] = 1;
	while (depth) {
		uint32_t at = stack[depth - 1], edge = edges->first[at] + next[at]++;

		if (edge >= edges->first[at + 1]) {
			o->number[at] = o->n;
			o->nodes[o->n++] = at;
			depth--;
		} else if (!seen[edges->to[edge]]) {
			seen[edges->to[edge]] = 1;
			stack[depth++] = edges->to[edge];
		}
	}
	free(stack);
	free(next);
	free(seen);
	return 0;
}

static uint32_t meet(const struct order *o, const uint32_t *idom, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (o->number[a] < o->number[b])
			a = idom[a];
		while (o->number[b] < o->number[a])
			b = idom[b];
	}
	return a;
}

/* The immediate dominators of what is reached from root by `down`; `up` are the same edges,
 * turned. */
static uint32_t *dominators(const struct gck_edges *down, const struct gck_edges *up, uint32_t n,
			    uint32_t root)
{
	struct order o = { 0 };
	uint32_t *idom = malloc((n + 1) * 4);
	bool changed = true;

	if (!idom || post_order(down, n, root, &o)) {
		free(o.nodes);
		free(o.number);
		free(idom);
		return NULL;
	}
	memset(idom, 0xff, (n + 1) * 4);
	idom[root] = root;
	while (changed) {
		changed = false;
		for (uint32_t k = o.n - 1; k-- > 0; ) {
			uint32_t at = o.nodes[k], found = GCK_NONE;

			for (uint32_t e = up->first[at]; e < up->first[at + 1]; e++) {
				uint32_t from = up->to[e];

				if (idom[from] != GCK_NONE)
					found = found == GCK_NONE ? from
								  : meet(&o, idom, found, from);
			}
			changed |= idom[at] != found;
			idom[at] = found;
		}
	}
	free(o.nodes);
	free(o.number);
	return idom;
}

static bool dominates(const struct gck_graph *g, uint32_t a, uint32_t b)
{
	while (b != a && g->dominator[b] != GCK_NONE && g->dominator[b] != b)
		b = g->dominator[b];
	return a == b;
}

static struct gck_loop *loop_of(struct gck_graph *g, uint32_t header, struct gck_error *err)
{
	struct gck_loop *more;

	for (size_t i = 0; i < g->n_loops; i++)
		if (g->loops[i].header == header)
			return &g->loops[i];
	more = gck_ptx_grow(g->loops, g->n_loops, sizeof *more, err);
	if (!more)
		return NULL;
	g->loops = more;
	more += g->n_loops;
	*more = (struct gck_loop){ header, calloc(g->n / 64 + 1, 8), 1, true };
	if (!more->body) {
		gck_fail(err, ENOMEM, "no memory for a loop");
		return NULL;
	}
	gck_set_add(more->body, header);
	g->n_loops++;
	return more;
}

/* Adds what reaches `from` without passing the header. */
static int add_body(struct gck_graph *g, struct gck_loop *loop, uint32_t from,
		    struct gck_error *err)
{
	uint32_t *stack = calloc(g->n + 1, 4), depth = 0;

	if (!stack)
		return gck_fail(err, ENOMEM, "no memory for a loop");
	if (!gck_set_has(loop->body, from))
		stack[depth++] = from;
	while (depth) {
		uint32_t at = stack[--depth];

		gck_set_add(loop->body, at);
		loop->size++;
		for (uint32_t e = g->from.first[at]; e < g->from.first[at + 1]; e++)
			if (!gck_set_has(loop->body, g->from.to[e])) {
				gck_set_add(loop->body, g->from.to[e]);
				stack[depth++] = g->from.to[e];
			}
	}
	free(stack);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct gck_loop *x = a, *y = b;

	return (x->size > y->size) - (x->size < y->size);
}

static int find_loops(struct gck_graph *g, struct gck_error *err)
{
	for (uint32_t b = 0; b + 1 < g->n; b++)
		for (uint32_t e = g->to.first[b]; e < g->to.first[b + 1]; e++) {
			struct gck_loop *loop;

			if (g->dominator[b] == GCK_NONE || !dominates(g, g->to.to[e], b))
				continue;
			loop = loop_of(g, g->to.to[e], err);
			if (!loop || add_body(g, loop, b, err))
				return -1;
		}
	if (g->n_loops)
		qsort(g->loops, g->n_loops, sizeof *g->loops, by_size);
	for (size_t i = 0; i < g->n_loops; i++)
		for (size_t k = 0; k < g->n_loops; k++)
			if (k != i && gck_set_has(g->loops[k].body, g->loops[i].header))
				g->loops[i].is_outermost = false;
	return 0;
}

void gck_graph_clear(struct gck_graph *g)
{
	free(g->to.first);
	free(g->to.to);
	free(g->from.first);
	free(g->from.to);
	free(g->dominator);
	free(g->post_dominator);
	for (size_t i = 0; i < g->n_loops; i++)
		free(g->loops[i].body);
	free(g->loops);
	free(g->apart);
	free(g->parting);
	*g = (struct gck_graph){ 0 };
}

int gck_graph_make(struct gck_graph *g, const struct gck_flow *flow, struct gck_error *err)
{
	*g = (struct gck_graph){ .flow = flow, .n = flow->n_blocks + 1 };
	if (make_edges(g, err))
		return -1;
	g->dominator = dominators(&g->to, &g->from, g->n, 0);
	g->post_dominator = dominators(&g->from, &g->to, g->n, g->n - 1);
	if (!g->dominator || !g->post_dominator)
		return gck_fail(err, ENOMEM, "no memory for %u blocks", g->n);
	if (find_loops(g, err))
		return -1;
	return gck_apart_find(g, GCK_UNIFORM, NULL, &g->apart, &g->parting, err);
}
