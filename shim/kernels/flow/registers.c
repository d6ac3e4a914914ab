/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/registers.h"

#define MOST_REGISTERS (1u << 20)

/* A declaration in sight: `.reg .b32 %r<9>` is one of nine registers. */
struct declared {
	uint32_t token, first, count, depth; /* count 0: a single one */
};

struct scope {
	struct gck_flow *flow;
	struct declared *names;
	size_t n;
	struct gck_error *err;
};

static uint32_t bits_of(const struct gck_ptx *ptx, uint32_t type)
{
	const char *digits = ptx->text + ptx->tokens[type].begin + 1;

	if (gck_ptx_is(ptx, type, ".pred"))
		return 1;
	while (isalpha(*digits))
		digits++;
	return strtoul(digits, NULL, 10);
}

static int add_registers(struct scope *s, const struct declared *d, uint32_t bits)
{
	struct gck_flow *flow = s->flow;

	for (uint32_t i = 0; i < (d->count ? d->count : 1); i++) {
		struct gck_register *more =
			gck_ptx_grow(flow->registers, flow->n_registers, sizeof *more, s->err);

		if (!more)
			return -1;
		flow->registers = more;
		more[flow->n_registers++] = (struct gck_register){
			d->token, d->count ? i : GCK_NONE, bits, d->depth
		};
	}
	return 0;
}

/* .reg TYPE NAME[<COUNT>][, NAME…] */
static int declare(struct scope *s, const struct gck_ptx_statement *at)
{
	const struct gck_ptx *ptx = s->flow->ptx;
	uint32_t bits = bits_of(ptx, at->op + 1);

	for (uint32_t i = 0; i < at->n_operands; i++) {
		struct gck_ptx_range o = ptx->operands[at->operand + i];
		struct declared d = { .first = s->flow->n_registers, .depth = at->depth };
		struct declared *more;

		d.token = o.first;
		while (d.token < o.last && ptx->text[ptx->tokens[d.token].begin] == '.')
			d.token++;
		if (d.token == o.last || ptx->tokens[d.token].kind != GCK_PTX_WORD)
			return gck_flow_fail(ptx, at, s->err, "a register without a name");
		if (d.token + 2 < o.last && gck_ptx_is(ptx, d.token + 1, "<"))
			d.count = strtoul(ptx->text + ptx->tokens[d.token + 2].begin, NULL, 10);
		if (d.count > MOST_REGISTERS || s->flow->n_registers > MOST_REGISTERS)
			return gck_flow_fail(ptx, at, s->err, "more than %u registers",
					     MOST_REGISTERS);
		more = gck_ptx_grow(s->names, s->n, sizeof *more, s->err);
		if (!more)
			return -1;
		s->names = more;
		more[s->n++] = d;
		if (add_registers(s, &d, bits))
			return -1;
	}
	return 0;
}

/* The register that a token names, or GCK_NONE. The innermost declaration counts. */
static uint32_t find(const struct scope *s, uint32_t token)
{
	const struct gck_ptx *ptx = s->flow->ptx;
	const struct gck_ptx_token *t = &ptx->tokens[token];
	const char *text = ptx->text + t->begin;
	size_t length = t->end - t->begin;

	if (t->kind != GCK_PTX_WORD)
		return GCK_NONE;
	for (size_t i = s->n; i-- > 0; ) {
		const struct declared *d = &s->names[i];
		const struct gck_ptx_token *name = &ptx->tokens[d->token];
		size_t n = name->end - name->begin;
		char *end;
		unsigned long number;

		if (length < n || memcmp(text, ptx->text + name->begin, n))
			continue;
		if (length == n && !d->count)
			return d->first;
		if (!d->count || length == n || !isdigit(text[n]) || length - n > 9)
			continue;
		number = strtoul(text + n, &end, 10);
		if (end == text + length && number < d->count)
			return d->first + number;
	}
	return GCK_NONE;
}

/* Special registers that are equal in a block. All others differ. */
static bool is_equal_special(const struct gck_ptx *ptx, uint32_t token)
{
	static const char *const equal[] = { "%ctaid.", "%nctaid.", "%ntid.", "%gridid", "%envreg",
					     "%dynamic_smem_size", "%total_smem_size" };
	const struct gck_ptx_token *t = &ptx->tokens[token];

	for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
		if (t->end - t->begin >= strlen(equal[i]) &&
		    !memcmp(ptx->text + t->begin, equal[i], strlen(equal[i])))
			return true;
	return false;
}

static int refer(struct scope *s, uint32_t reg, bool is_written)
{
	struct gck_flow *flow = s->flow;
	struct gck_reference *more =
		gck_ptx_grow(flow->references, flow->n_references, sizeof *more, s->err);

	if (!more)
		return -1;
	flow->references = more;
	more[flow->n_references++] = (struct gck_reference){ reg, is_written };
	return 0;
}

static int refer_operand(struct scope *s, struct gck_ptx_range o, bool is_written)
{
	for (uint32_t at = o.first; at < o.last; at++) {
		uint32_t reg = find(s, at);

		if (reg == GCK_NONE && s->flow->ptx->text[s->flow->ptx->tokens[at].begin] == '%' &&
		    !is_equal_special(s->flow->ptx, at))
			reg = GCK_SPECIAL;
		if (reg != GCK_NONE && refer(s, reg, is_written))
			return -1;
	}
	return 0;
}

/* A call's results stand in parentheses. */
static bool writes(const struct scope *s, unsigned traits, uint32_t i, struct gck_ptx_range o)
{
	if (i)
		return false;
	if (traits & GCK_CALL)
		return gck_ptx_is(s->flow->ptx, o.first, "(");
	if (traits & GCK_BARRIER) /* bar.red D, 0, P; bar.sync 0 */
		return gck_ptx_is(s->flow->ptx, o.first, "0") ? false : true;
	return traits & GCK_WRITES;
}

static int refer_instruction(struct scope *s, const struct gck_ptx_statement *at, unsigned traits)
{
	const struct gck_ptx *ptx = s->flow->ptx;
	uint32_t guard = at->guard ? find(s, at->guard) : GCK_NONE;

	if (guard != GCK_NONE && refer(s, guard, false))
		return -1;
	if (at->guard && guard == GCK_NONE)
		return gck_flow_fail(ptx, at, s->err, "a guard that is not declared");
	if ((traits & GCK_CARRY_IN) && refer(s, GCK_CARRY, false))
		return -1;
	if ((traits & GCK_CARRY_OUT) && refer(s, GCK_CARRY, true))
		return -1;
	for (uint32_t i = 0; i < at->n_operands; i++) {
		struct gck_ptx_range o = ptx->operands[at->operand + i];

		if (refer_operand(s, o, writes(s, traits, i, o)))
			return -1;
	}
	return 0;
}

static int read_statements(struct scope *s)
{
	struct gck_flow *flow = s->flow;
	const char *why;

	for (uint32_t i = 0; i < flow->n_statements; i++) {
		const struct gck_ptx_statement *at = &flow->statements[i];

		flow->reference[i] = flow->n_references;
		if (at->does == GCK_PTX_CLOSE)
			while (s->n && s->names[s->n - 1].depth > at->depth)
				s->n--;
		if (at->does == GCK_PTX_DIRECTIVE && gck_ptx_is(flow->ptx, at->op, ".reg") &&
		    declare(s, at))
			return -1;
		if (at->does != GCK_PTX_INSTRUCTION)
			continue;
		flow->traits[i] = gck_instruction_traits(flow->ptx, at->op, &why);
		if (refer_instruction(s, at, flow->traits[i]))
			return -1;
	}
	flow->reference[flow->n_statements] = flow->n_references;
	return 0;
}

int gck_registers_read(struct gck_flow *flow, struct gck_error *err)
{
	struct scope s = { .flow = flow, .err = err };
	int result;

	flow->reference = calloc(flow->n_statements + 1, sizeof *flow->reference);
	flow->traits = calloc(flow->n_statements + 1, sizeof *flow->traits);
	if (!flow->reference || !flow->traits)
		return gck_fail(err, ENOMEM, "no memory for %u statements", flow->n_statements);
	/* GCK_CARRY, GCK_SPECIAL */
	result = add_registers(&s, &(struct declared){ .count = 2 }, 32);
	if (!result)
		result = read_statements(&s);
	free(s.names);
	return result;
}
