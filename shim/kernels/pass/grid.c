/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/pass/grid.h"

#define NO_WORKSPACE UINT32_MAX /* in offsets: no address of the workspace */
#define LOST (UINT32_MAX - 1)   /* one in it that is not known */
#define BARRIER_AT 4            /* of the workspace: all that is used of it */

bool gck_grid_is(const struct gck_ptx *ptx, const struct gck_ptx_statement *s)
{
	const struct gck_ptx_range *o = &ptx->operands[s->operand];

	return s->does == GCK_PTX_INSTRUCTION && !s->guard && !s->depth && s->n_operands == 2 &&
	       (gck_ptx_is(ptx, s->op, "mov.u32") || gck_ptx_is(ptx, s->op, "mov.b32")) &&
	       (gck_ptx_is(ptx, o[1].first, "%envreg1") ||
		gck_ptx_is(ptx, o[1].first, "%envreg2"));
}

/* The number behind a register in ADDRESS or add's operands; LOST: it is none. */
static uint32_t number_at(const struct gck_ptx *ptx, struct gck_ptx_range o)
{
	const char *text = ptx->text + ptx->tokens[o.first].begin;
	char *end;
	unsigned long number = strtoul(text, &end, 0);

	return o.last - o.first == 1 && *text >= '0' && *text <= '9' && number < LOST ? number
										      : LOST;
}

/* How far behind the workspace's begin what a statement reads lies. */
static uint32_t offset_read(const struct gck_flow *f, uint32_t i, const uint32_t *offsets)
{
	uint32_t offset = f->traits[i] & GCK_GRID ? 0 : NO_WORKSPACE;

	for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++) {
		const struct gck_reference *r = &f->references[k];

		if (!r->is_written && offsets[r->reg] != NO_WORKSPACE)
			offset = offset == NO_WORKSPACE || offset == offsets[r->reg]
					 ? offsets[r->reg] : LOST;
	}
	return offset;
}

/* Both halves of the address count as it; what it is compared with does not matter. */
static bool note_offset(const struct gck_flow *f, uint32_t i, uint32_t *offsets)
{
	const struct gck_ptx_statement *s = &f->statements[i];
	uint32_t offset = offset_read(f, i, offsets);
	bool changed = false;

	if (offset == NO_WORKSPACE || !(f->traits[i] & GCK_PURE))
		return false;
	if (gck_ptx_begins(f->ptx, s->op, "add.") && offset != LOST) {
		uint32_t more = s->n_operands == 3
			? number_at(f->ptx, f->ptx->operands[s->operand + 2]) : LOST;

		offset = more == LOST || offset ? LOST : more;
	}
	for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++) {
		const struct gck_reference *r = &f->references[k];
		uint32_t *at = &offsets[r->reg];
		uint32_t next = *at == NO_WORKSPACE || *at == offset ? offset : LOST;

		if (!r->is_written || f->registers[r->reg].bits == 1 || *at == next)
			continue;
		*at = next;
		changed = true;
	}
	return changed;
}

/* Whether a statement adds to the barrier's word, or reads it, as grid.sync does. */
static bool is_barrier_of_grid(const struct gck_flow *f, uint32_t i, const uint32_t *offsets)
{
	const struct gck_ptx *ptx = f->ptx;
	const struct gck_ptx_statement *s = &f->statements[i];
	const struct gck_ptx_range *o = &ptx->operands[s->operand];
	bool is_add = gck_ptx_begins(ptx, s->op, "atom.") && gck_instruction_has(ptx, s->op, "add");
	bool is_load = gck_ptx_begins(ptx, s->op, "ld.") && (f->traits[i] & GCK_WAITED);
	uint32_t offset = offset_read(f, i, offsets), more = 0;

	if (!(is_add || is_load) || s->depth || s->n_operands != (is_add ? 3 : 2) ||
	    !(gck_instruction_has(ptx, s->op, "u32") || gck_instruction_has(ptx, s->op, "s32") ||
	      gck_instruction_has(ptx, s->op, "b32")))
		return false;
	/* [A] or [A+N] */
	if (o[1].last - o[1].first == 5 && gck_ptx_is(ptx, o[1].first + 2, "+"))
		more = number_at(ptx, (struct gck_ptx_range){ o[1].first + 3, o[1].first + 4 });
	else if (o[1].last - o[1].first != 3)
		return false;
	return offset != LOST && more != LOST && offset + more == BARRIER_AT;
}

int gck_grid_check(const struct gck_flow *f, struct gck_error *err)
{
	uint32_t *offsets = malloc((f->n_registers + 1) * sizeof *offsets);
	bool changed = true;
	int result = 0;

	if (!offsets)
		return gck_fail(err, ENOMEM, "no memory for %zu registers", f->n_registers);
	memset(offsets, 0xff, (f->n_registers + 1) * sizeof *offsets);
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < f->n_statements; i++)
			changed |= note_offset(f, i, offsets);
	}
	for (uint32_t i = 0; i < f->n_statements && !result; i++)
		if (offset_read(f, i, offsets) != NO_WORKSPACE && !(f->traits[i] & GCK_PURE) &&
		    !is_barrier_of_grid(f, i, offsets))
			result = gck_flow_fail(f->ptx, &f->statements[i], err,
					       "a use of the grid's workspace (%%envreg1, "
					       "%%envreg2) that is no barrier of the grid "
					       "(grid.sync)");
	free(offsets);
	return result;
}
