/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/apart.h"

struct search {
	const struct gck_graph *graph;
	unsigned equal;
	const bool *towards;
	uint64_t *apart, *parting;
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
		   uint64_t **apart, uint64_t **parting, struct gck_error *err)
{
	struct search s = { g, equal, towards, calloc(g->n / 64 + 1, 8),
			    calloc(g->n / 64 + 1, 8), calloc(g->flow->words, 8),
			    calloc(g->n + 1, 4), calloc(g->n + 1, 1), true };

	*apart = s.apart;
	if (!s.differs || !s.stack || !s.seen || !s.apart || !s.parting) {
		free(s.parting);
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
			if (parts(&s, b)) {
				gck_set_add(s.parting, b);
				mark_apart(&s, b);
			}
	}
	if (parting)
		*parting = s.parting;
	else
		free(s.parting);
	free(s.differs);
	free(s.stack);
	free(s.seen);
	return 0;
}

/* ---- threads that stay behind ---------------------------------------------------------------- */

struct walk {
	const struct gck_graph *graph;
	const bool *stops; /* statements */
	uint32_t *stack;
	bool *seen; /* blocks */
	bool has_stop;
	uint32_t barrier, n_barriers; /* the last, and how many */
};

/* A block's statements up to its first barrier; false: it has one. */
static bool scan(struct walk *w, uint32_t block)
{
	const struct gck_flow *f = w->graph->flow;
	bool is_apart = gck_set_has(w->graph->apart, block);

	for (uint32_t i = f->blocks[block].first; i < f->blocks[block].last; i++) {
		bool is_barrier = f->traits[i] & GCK_BARRIER;

		w->has_stop |= w->stops[i];
		if (!is_barrier)
			continue;
		w->barrier = i;
		w->n_barriers++;
		w->has_stop |= is_apart || f->statements[i].guard;
		return false;
	}
	return true;
}

/* All blocks behind a block's branch, up to barriers; or all before the block `meet`. */
static void walk(struct walk *w, uint32_t block, uint32_t meet)
{
	const struct gck_edges *to = &w->graph->to;
	uint32_t depth = 0, end = w->graph->n - 1; /* of the function */
	bool goes_on = true;

	memset(w->seen, 0, w->graph->n);
	w->has_stop = false;
	w->n_barriers = 0;
	for (uint32_t at = block; ; at = w->stack[--depth], goes_on = scan(w, at)) {
		for (uint32_t e = to->first[at]; e < to->first[at + 1]; e++) {
			uint32_t next = to->to[e];

			if (w->seen[next] || next == end || next == meet ||
			    (meet == GCK_NONE && !goes_on))
				continue;
			w->seen[next] = true;
			w->stack[depth++] = next;
		}
		if (!depth)
			return;
	}
}

int gck_apart_awaited(const struct gck_graph *g, uint32_t block, const bool *stops, bool *awaited,
		      uint32_t *barrier, struct gck_error *err)
{
	struct walk w = { .graph = g, .stops = stops, .stack = calloc(g->n + 1, 4),
			  .seen = calloc(g->n + 1, 1) };
	bool has_memory = w.stack && w.seen;

	*awaited = true;
	*barrier = GCK_NONE;
	for (uint32_t b = 0; has_memory && b + 1 < g->n; b++) {
		if (!gck_set_has(g->parting, b))
			continue;
		walk(&w, b, g->post_dominator[b]);
		if (!w.seen[block])
			continue;
		*awaited &= !w.n_barriers;
		walk(&w, b, GCK_NONE);
		*awaited &= !w.has_stop && w.n_barriers <= 1;
		if (!w.n_barriers)
			continue;
		*awaited &= *barrier == GCK_NONE || *barrier == w.barrier;
		*barrier = w.barrier;
	}
	free(w.stack);
	free(w.seen);
	return has_memory ? 0 : gck_fail(err, ENOMEM, "no memory for %u blocks", g->n);
}
