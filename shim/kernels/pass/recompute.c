/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "shim/kernels/pass/recompute.h"

struct search {
	const struct gck_flow *flow;
	struct gck_recompute *found;
	uint32_t *writers; /* of each register: how many statements write it */
	bool *taken;       /* statements */
};

/* Special registers that the same thread has in each launch of the grid. Of %envreg, only what the
 * pass writes instead is read. */
static bool is_constant_special(const struct gck_ptx *ptx, uint32_t token)
{
	static const char *const names[] = { "%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid",
					     "%lanemask_", "%dynamic_smem_size", "%envreg" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (gck_ptx_begins(ptx, token, names[i]))
			return true;
	return false;
}

static bool is_parameter(const struct gck_flow *f, uint32_t token)
{
	for (uint32_t i = f->function->name + 1; i < f->function->header.last; i++)
		if (gck_ptx_same(f->ptx, i, token))
			return true;
	return false;
}

/* Whether all that its operands name are registers, constant special registers, the kernel's own
 * parameters, and variables. */
static bool has_constant_names(const struct gck_flow *f, uint32_t i)
{
	const struct gck_ptx *ptx = f->ptx;
	const struct gck_ptx_statement *s = &f->statements[i];
	bool is_load = gck_ptx_begins(ptx, s->op, "ld.param");
	uint32_t others = 0;

	for (uint32_t at = s->op + 1; at < s->at.last; at++) {
		others += gck_ptx_begins(ptx, at, "%") && !is_constant_special(ptx, at);
		if (is_load && gck_ptx_is(ptx, at, "[") && !is_parameter(f, at + 1))
			return false;
	}
	for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++)
		others -= f->references[k].reg != GCK_SPECIAL;
	return !others;
}

/* Whether it can be computed again now, from what was found. */
static bool is_constant(const struct search *s, uint32_t i)
{
	const struct gck_flow *f = s->flow;

	if (!(f->traits[i] & GCK_PURE) || (f->traits[i] & (GCK_CARRY_IN | GCK_CARRY_OUT)) ||
	    f->statements[i].guard || f->statements[i].depth || !has_constant_names(f, i))
		return false;
	for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++) {
		const struct gck_reference *r = &f->references[k];

		if (r->is_written ? s->writers[r->reg] > 1
				  : r->reg != GCK_SPECIAL &&
					    !gck_set_has(s->found->registers, r->reg))
			return false;
	}
	return true;
}

static void take(struct search *s, uint32_t i)
{
	const struct gck_flow *f = s->flow;

	s->taken[i] = true;
	s->found->order[s->found->n++] = i;
	for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++)
		if (f->references[k].is_written)
			gck_set_add(s->found->registers, f->references[k].reg);
}

static void search(struct search *s)
{
	const struct gck_flow *f = s->flow;
	bool changed = true;

	for (uint32_t k = 0; k < f->n_references; k++)
		s->writers[f->references[k].reg] += f->references[k].is_written;
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < f->n_statements; i++)
			if (!s->taken[i] && is_constant(s, i)) {
				take(s, i);
				changed = true;
			}
	}
}

int gck_recompute_find(struct gck_recompute *r, const struct gck_flow *flow, struct gck_error *err)
{
	struct search s = { flow, r, calloc(flow->n_registers + 1, sizeof *s.writers),
			    calloc(flow->n_statements + 1, sizeof *s.taken) };
	bool has_memory;

	*r = (struct gck_recompute){ calloc(flow->n_statements + 1, sizeof *r->order), 0,
				     calloc(flow->words, sizeof *r->registers) };
	has_memory = s.writers && s.taken && r->order && r->registers;
	if (has_memory)
		search(&s);
	free(s.writers);
	free(s.taken);
	return has_memory ? 0 : gck_fail(err, ENOMEM, "no memory for %u statements",
					 flow->n_statements);
}

void gck_recompute_clear(struct gck_recompute *r)
{
	free(r->order);
	free(r->registers);
	*r = (struct gck_recompute){ 0 };
}

void gck_recompute_close(const struct gck_recompute *r, const struct gck_flow *flow,
			 uint64_t *wanted)
{
	for (size_t n = r->n; n-- > 0; ) {
		uint32_t i = r->order[n];

		if (!gck_flow_writes(flow, i, wanted))
			continue;
		for (uint32_t k = flow->reference[i]; k < flow->reference[i + 1]; k++)
			gck_set_add(wanted, flow->references[k].reg);
	}
}
