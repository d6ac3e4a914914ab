/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/registers.h"

#define MOST_LIVE ((size_t)256 << 20) /* bytes */

int gck_flow_fail(const struct gck_ptx *ptx, const struct gck_ptx_statement *s,
		  struct gck_error *err, const char *fmt, ...)
{
	const struct gck_ptx_token *first = &ptx->tokens[s->at.first];
	uint32_t file = s->file ? gck_ptx_file(ptx, s->file) : 0;
	size_t marker = sizeof GCK_PTX_MARKER - 1;
	va_list ap;

	va_start(ap, fmt);
	gck_vfail(err, EINVAL, fmt, ap);
	va_end(ap);
	if (s->does == GCK_PTX_POINT && first->end - first->begin > marker + 1)
		return gck_fail_in(err, "%.*s", (int)(first->end - first->begin - marker - 1),
				   ptx->text + first->begin + marker + 1);
	if (file && s->line && ptx->tokens[file].kind == GCK_PTX_STRING)
		return gck_fail_in(err, "%.*s:%u",
				   (int)(ptx->tokens[file].end - ptx->tokens[file].begin - 2),
				   ptx->text + ptx->tokens[file].begin + 1, s->line);
	return gck_fail_in(err, "PTX line %u", first->line);
}

void gck_flow_clear(struct gck_flow *flow)
{
	free(flow->registers);
	free(flow->references);
	free(flow->reference);
	free(flow->traits);
	free(flow->blocks);
	free(flow->successors);
	free(flow->block_of);
	free(flow->live);
	*flow = (struct gck_flow){ 0 };
}

static bool is_leader(const struct gck_flow *flow, uint32_t i)
{
	return !i || flow->statements[i].does == GCK_PTX_LABEL ||
	       (flow->traits[i - 1] & (GCK_BRANCH | GCK_TABLE_BRANCH | GCK_ENDS));
}

static int cut_blocks(struct gck_flow *flow, struct gck_error *err)
{
	for (uint32_t i = 0; i < flow->n_statements; i++) {
		if (is_leader(flow, i)) {
			struct gck_block *more = gck_ptx_grow(flow->blocks, flow->n_blocks,
							      sizeof *more, err);
			if (!more)
				return -1;
			flow->blocks = more;
			more[flow->n_blocks++] = (struct gck_block){ .first = i };
		}
		flow->blocks[flow->n_blocks - 1].last = i + 1;
		flow->block_of[i] = flow->n_blocks - 1;
	}
	return 0;
}

static int add_successor(struct gck_flow *flow, struct gck_block *block, uint32_t to,
			 struct gck_error *err)
{
	uint32_t *more = gck_ptx_grow(flow->successors, flow->n_successors, sizeof *more, err);

	if (!more)
		return -1;
	flow->successors = more;
	more[flow->n_successors++] = to;
	block->n_successors++;
	return 0;
}

struct label {
	const char *text;
	size_t length;
	uint32_t statement;
};

static int by_name(const void *a, const void *b)
{
	const struct label *x = a, *y = b;
	int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);

	return order ? order : (x->length > y->length) - (x->length < y->length);
}

struct labels {
	struct label *all;
	size_t n;
};

static struct label label_of(const struct gck_ptx *ptx, uint32_t token, uint32_t statement)
{
	const struct gck_ptx_token *t = &ptx->tokens[token];

	return (struct label){ ptx->text + t->begin, t->end - t->begin, statement };
}

static int find_label(const struct gck_flow *flow, const struct labels *labels,
		      const struct gck_ptx_statement *s, uint32_t token, uint32_t *statement,
		      struct gck_error *err)
{
	struct label key = label_of(flow->ptx, token, 0), *found;

	found = bsearch(&key, labels->all, labels->n, sizeof key, by_name);
	if (!found)
		return gck_flow_fail(flow->ptx, s, err, "a branch to %.*s, which is no label",
				     GCK_PTX_TEXT(flow->ptx, token));
	*statement = found->statement;
	return 0;
}

/* The labels of `NAME: .branchtargets A, B;` */
static int add_table(struct gck_flow *flow, const struct labels *labels, struct gck_block *block,
		     const struct gck_ptx_statement *s, uint32_t table, struct gck_error *err)
{
	const struct gck_ptx_statement *targets;
	uint32_t to;

	do
		table++;
	while (table < flow->n_statements &&
	       gck_ptx_is(flow->ptx, flow->statements[table].op, ".loc"));
	targets = &flow->statements[table];
	if (table >= flow->n_statements || !gck_ptx_is(flow->ptx, targets->op, ".branchtargets"))
		return gck_flow_fail(flow->ptx, s, err, "a branch by a table that is not known");
	for (uint32_t i = 0; i < targets->n_operands; i++)
		if (find_label(flow, labels, s, flow->ptx->operands[targets->operand + i].first,
			       &to, err) ||
		    add_successor(flow, block, flow->block_of[to], err))
			return -1;
	return 0;
}

static int follow(struct gck_flow *flow, const struct labels *labels, struct gck_block *block,
		  struct gck_error *err)
{
	uint32_t last = block->last - 1, to;
	const struct gck_ptx_statement *s = &flow->statements[last];
	unsigned ends = flow->traits[last] & (GCK_BRANCH | GCK_TABLE_BRANCH | GCK_ENDS);

	block->successor = flow->n_successors;
	if (ends & (GCK_BRANCH | GCK_TABLE_BRANCH)) {
		if (s->n_operands < (ends & GCK_TABLE_BRANCH ? 2 : 1))
			return gck_flow_fail(flow->ptx, s, err, "a branch without a label");
		if (find_label(flow, labels, s,
			       flow->ptx->operands[s->operand + s->n_operands - 1].first, &to, err))
			return -1;
		if (ends & GCK_BRANCH ? add_successor(flow, block, flow->block_of[to], err)
				      : add_table(flow, labels, block, s, to, err))
			return -1;
	}
	if ((!ends || s->guard) && block->last < flow->n_statements)
		return add_successor(flow, block, flow->block_of[block->last], err);
	return 0;
}

static int connect(struct gck_flow *flow, struct gck_error *err)
{
	struct labels labels = { calloc(flow->n_statements + 1, sizeof *labels.all), 0 };
	int result = labels.all ? 0 : gck_fail(err, ENOMEM, "no memory for labels");

	for (uint32_t i = 0; !result && i < flow->n_statements; i++)
		if (flow->statements[i].does == GCK_PTX_LABEL)
			labels.all[labels.n++] = label_of(flow->ptx, flow->statements[i].op, i);
	if (!result)
		qsort(labels.all, labels.n, sizeof *labels.all, by_name);
	for (size_t i = 0; !result && i < flow->n_blocks; i++)
		result = follow(flow, &labels, &flow->blocks[i], err);
	free(labels.all);
	return result;
}

/* From the registers live behind statement i to those live before it. What a guard may leave out
 * is not overwritten for certain. */
static void step_back(const struct gck_flow *flow, uint32_t i, uint64_t *set)
{
	const struct gck_reference *r = flow->references;

	for (uint32_t k = flow->reference[i]; k < flow->reference[i + 1]; k++)
		if (r[k].is_written && !flow->statements[i].guard)
			set[r[k].reg / 64] &= ~(1ull << (r[k].reg % 64));
	for (uint32_t k = flow->reference[i]; k < flow->reference[i + 1]; k++)
		if (!r[k].is_written)
			gck_set_add(set, r[k].reg);
}

/* Live before statement `from` of block b. */
static void live_in(const struct gck_flow *flow, size_t b, uint32_t from, uint64_t *set)
{
	const struct gck_block *block = &flow->blocks[b];

	memset(set, 0, flow->words * sizeof *set);
	for (uint32_t i = 0; i < block->n_successors; i++) {
		const uint64_t *next = flow->live +
				       flow->words * flow->successors[block->successor + i];
		for (size_t w = 0; w < flow->words; w++)
			set[w] |= next[w];
	}
	for (uint32_t i = block->last; i-- > from; )
		step_back(flow, i, set);
}

bool gck_flow_writes(const struct gck_flow *flow, uint32_t i, const uint64_t *set)
{
	for (uint32_t k = flow->reference[i]; k < flow->reference[i + 1]; k++)
		if (flow->references[k].is_written && gck_set_has(set, flow->references[k].reg))
			return true;
	return false;
}

uint32_t gck_flow_braces(const struct gck_flow *flow, uint32_t i)
{
	while (i && flow->statements[i].depth)
		i--;
	return i;
}

void gck_flow_live(const struct gck_flow *flow, uint32_t i, uint64_t *set)
{
	live_in(flow, flow->block_of[i], i, set);
}

static int find_live(struct gck_flow *flow, struct gck_error *err)
{
	uint64_t *set;
	bool changed = true;

	flow->words = flow->n_registers / 64 + 1;
	if (flow->words * sizeof *set > MOST_LIVE / (flow->n_blocks + 1))
		return gck_fail(err, EFBIG, "a function of %zu registers and %zu blocks is too "
				"large", flow->n_registers, flow->n_blocks);
	flow->live = calloc(flow->n_blocks + 1, flow->words * sizeof *flow->live);
	set = calloc(flow->words, sizeof *set);
	if (!flow->live || !set) {
		free(set);
		return gck_fail(err, ENOMEM, "no memory for %zu registers", flow->n_registers);
	}
	while (changed) {
		changed = false;
		for (size_t b = flow->n_blocks; b-- > 0; ) {
			uint64_t *live = flow->live + b * flow->words;

			live_in(flow, b, flow->blocks[b].first, set);
			changed |= memcmp(live, set, flow->words * sizeof *set) != 0;
			memcpy(live, set, flow->words * sizeof *set);
		}
	}
	free(set);
	return 0;
}

int gck_flow_make(struct gck_flow *flow, const struct gck_ptx *ptx,
		  const struct gck_ptx_function *function, struct gck_error *err)
{
	*flow = (struct gck_flow){ .ptx = ptx, .function = function,
				   .statements = ptx->statements + function->statement,
				   .n_statements = function->n_statements };
	flow->block_of = calloc(flow->n_statements + 1, sizeof *flow->block_of);
	if (!flow->block_of)
		return gck_fail(err, ENOMEM, "no memory for %u statements", flow->n_statements);
	if (gck_registers_read(flow, err) || cut_blocks(flow, err) || connect(flow, err) ||
	    find_live(flow, err))
		return -1;
	return 0;
}
