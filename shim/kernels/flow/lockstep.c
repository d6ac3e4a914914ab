/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/apart.h"
#include "shim/kernels/flow/lockstep.h"

struct search {
	const struct gck_graph *graph;
	const struct gck_flow *flow;
	const bool *points;
	bool *stays;
	uint64_t *apart; /* blocks that the threads of a block of the grid may reach apart */
	bool *seen;      /* blocks */
	uint32_t *stack;
	uint32_t *next, n_next; /* the barriers that threads may come to next */
	bool has_point;         /* on the way */
};

/* From statement i to the end of its block, or to a barrier; then its successors are not
 * reached. */
static bool scan(struct search *s, uint32_t i)
{
	uint32_t last = s->flow->blocks[s->flow->block_of[i]].last;

	for (; i < last; i++) {
		s->has_point |= s->points[i];
		if (s->flow->traits[i] & GCK_BARRIER) {
			s->next[s->n_next++] = i;
			return false;
		}
	}
	return true;
}

/* All that threads may do from statement i on up to their next barriers. */
static void follow(struct search *s, uint32_t i)
{
	const struct gck_flow *f = s->flow;
	uint32_t depth = 0, block = f->block_of[i];
	bool goes_on = scan(s, i);

	memset(s->seen, 0, s->graph->n);
	for (;;) {
		for (uint32_t k = 0; goes_on && k < f->blocks[block].n_successors; k++) {
			uint32_t to = f->successors[f->blocks[block].successor + k];

			if (!s->seen[to])
				s->stack[depth++] = to;
			s->seen[to] = true;
		}
		if (!depth)
			return;
		block = s->stack[--depth];
		goes_on = scan(s, f->blocks[block].first);
	}
}

/* Whether all threads of the block have the same next barrier, from statement i on. Those that end
 * have none. Barriers behind a point do not stay. */
static bool is_together(struct search *s, uint32_t i, bool has_point)
{
	bool is_one = true;

	s->n_next = 0;
	s->has_point = has_point;
	if (i < s->flow->n_statements)
		follow(s, i);
	for (uint32_t k = 0; k < s->n_next; k++) {
		is_one &= s->n_next == 1 ||
			  !gck_set_has(s->apart, s->flow->block_of[s->next[k]]);
		if (s->has_point)
			s->stays[s->next[k]] = false;
	}
	return is_one;
}

static bool search(struct search *s)
{
	const struct gck_flow *f = s->flow;

	for (uint32_t i = 0; i < f->n_statements; i++)
		s->stays[i] = f->traits[i] & GCK_BARRIER;
	if (!is_together(s, 0, true))
		return false;
	for (uint32_t i = 0; i < f->n_statements; i++)
		if ((f->traits[i] & GCK_BARRIER) &&
		    (f->statements[i].guard || !is_together(s, i + 1, false)))
			return false;
	return true;
}

/* Blocks from which a barrier can be reached. */
static void find_towards(const struct gck_graph *g, bool *towards)
{
	bool changed = true;

	for (uint32_t i = 0; i < g->flow->n_statements; i++)
		towards[g->flow->block_of[i]] |= (g->flow->traits[i] & GCK_BARRIER) != 0;
	while (changed) {
		changed = false;
		for (uint32_t b = g->n - 1; b-- > 0; )
			for (uint32_t e = g->to.first[b]; e < g->to.first[b + 1]; e++)
				if (towards[g->to.to[e]] && !towards[b])
					towards[b] = changed = true;
	}
}

int gck_lockstep_find(const struct gck_graph *g, const bool *points, bool **stays,
		      struct gck_error *err)
{
	uint32_t n = g->flow->n_statements + 1;
	struct search s = { .graph = g, .flow = g->flow, .points = points,
			    .stays = calloc(n, 1), .seen = calloc(g->n + 1, 1),
			    .stack = calloc(g->n + 1, 4), .next = calloc(n, 4) };
	bool *towards = calloc(g->n + 1, 1);
	int result = -1;

	*stays = s.stays;
	if (!s.stays || !s.seen || !s.stack || !s.next || !towards) {
		gck_fail(err, ENOMEM, "no memory for %u statements", n);
	} else {
		find_towards(g, towards);
		result = gck_apart_find(g, GCK_PURE, towards, &s.apart, NULL, err);
		if (!result && !search(&s))
			memset(s.stays, 0, n);
	}
	free(s.apart);
	free(s.seen);
	free(s.stack);
	free(s.next);
	free(towards);
	return result;
}
