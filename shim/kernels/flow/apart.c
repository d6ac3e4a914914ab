/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/apart.h"

struct search {
	const struct gck_graph *graph;
	unsigned equal;
	const bool *towards;
	uint64_t *apart;
	uint64_t *differs; /* registers that may differ among the threads */
	uint32_t *stack;
	bool *seen; /* blocks */
	bool changed;
};

static bool sources_differ(const struct search *s, uint32_t i)
{
	const struct gck_flow *flow = s->graph->flow;

	for (uint32_t k = flow->reference[i]; k < flow->reference[i + 1]; k++)
		if (!flow->references[k].is_written &&
		    gck_set_has(s->differs, flow->references[k].reg))
			return true;
	return false;
}

static void note_written(struct search *s, uint32_t i)
{
	const struct gck_flow *flow = s->graph->flow;
	bool differs = !(flow->traits[i] & s->equal) ||
		       gck_set_has(s->apart, flow->block_of[i]) || sources_differ(s, i);

	if ((flow->traits[i] & GCK_BARRIER) && !gck_set_has(s->apart, flow->block_of[i]))
		differs = false; /* the result of a barrier is the block's */
	for (uint32_t k = flow->reference[i]; differs && k < flow->reference[i + 1]; k++) {
		const struct gck_reference *r = &flow->references[k];

		if (r->is_written && !gck_set_has(s->differs, r->reg)) {
			gck_set_add(s->differs, r->reg);
			s->changed = true;
		}
	}
}

/* All that is reached from a branch before its ways meet. */
static void mark_apart(struct search *s, uint32_t branch)
{
	const struct gck_graph *g = s->graph;
	uint32_t depth = 0, meet = g->post_dominator[branch];

	memset(s->seen, 0, g->n);
	for (uint32_t at = branch; ; at = s->stack[--depth]) {
		for (uint32_t e = g->to.first[at]; e < g->to.first[at + 1]; e++) {
			uint32_t to = g->to.to[e];

			if (to == meet || to + 1 == g->n || s->seen[to])
				continue;
			s->seen[to] = true;
			s->changed |= !gck_set_has(s->apart, to);
			gck_set_add(s->apart, to);
			s->stack[depth++] = to;
		}
		if (!depth)
			return;
	}
}

static uint32_t count_ways(const struct search *s, uint32_t block)
{
	const struct gck_edges *to = &s->graph->to;
	uint32_t n = 0;

	for (uint32_t e = to->first[block]; e < to->first[block + 1]; e++)
		n += !s->towards || s->towards[to->to[e]];
	return n;
}

/* A branch, or a guarded end, on what differs. */
static bool parts(const struct search *s, uint32_t block)
{
	const struct gck_flow *flow = s->graph->flow;
	uint32_t last = flow->blocks[block].last - 1;
	unsigned traits = flow->traits[last];

	return ((traits & GCK_TABLE_BRANCH) || flow->statements[last].guard) &&
	       (traits & (GCK_BRANCH | GCK_TABLE_BRANCH | GCK_ENDS)) && sources_differ(s, last) &&
	       count_ways(s, block) > 1;
}

int gck_apart_find(const struct gck_graph *g, unsigned equal, const bool *towards,
		   uint64_t **apart, struct gck_error *err)
{
	struct search s = { g, equal, towards, calloc(g->n / 64 + 1, 8),
			    calloc(g->flow->words, 8), calloc(g->n + 1, 4), calloc(g->n + 1, 1),
			    true };

	*apart = s.apart;
	if (!s.differs || !s.stack || !s.seen || !s.apart) {
		free(s.differs);
		free(s.stack);
		free(s.seen);
		return gck_fail(err, ENOMEM, "no memory for %u blocks", g->n);
	}
	gck_set_add(s.differs, GCK_SPECIAL);
	while (s.changed) {
		s.changed = false;
		for (uint32_t i = 0; i < g->flow->n_statements; i++)
			if (g->flow->traits[i])
				note_written(&s, i);
		for (uint32_t b = 0; b + 1 < g->n; b++)
			if (parts(&s, b))
				mark_apart(&s, b);
	}
	free(s.differs);
	free(s.stack);
	free(s.seen);
	return 0;
}
