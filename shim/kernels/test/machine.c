/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "shim/kernels/flow/flow.h"

#define SHARED 0x7000000000u /* generic addresses */
#define LOCAL 0x7100000000u
#define MOST_SHARED 16384
#define MOST_LOCAL 1024
#define FIRST_SHARED 1024 /* an address in shared memory */
#define VARIABLES (MACHINE_GLOBAL + MACHINE_BYTES - 4096)
#define MOST_STEPS 40000000u
#define FRAMES 3

enum op {
	OP_NONE, OP_MOV, OP_ADD, OP_SUB, OP_MUL, OP_MAD, OP_AND, OP_OR, OP_XOR, OP_NOT, OP_SHL,
	OP_SHR, OP_MIN, OP_MAX, OP_SETP, OP_SELP, OP_CVT, OP_LD, OP_ST, OP_ATOM, OP_BRA,
	OP_BRX, OP_RET, OP_TRAP, OP_BAR, OP_BARRED, OP_VOTE, OP_SHFL, OP_CALL, OP_FMA, OP_POPC,
	OP_DIV, OP_REM, OP_CVTA, OP_PACK, OP_SPLIT, OP_BFIND, OP_BFI, OP_WARP,
	OP_NEG,
};

static const struct {
	const char *name;
	enum op op;
} ops[] = {
	{ "mov", OP_MOV }, { "add", OP_ADD }, { "sub", OP_SUB }, { "mul", OP_MUL },
	{ "mad", OP_MAD }, { "and", OP_AND }, { "or", OP_OR }, { "xor", OP_XOR },
	{ "not", OP_NOT }, { "shl", OP_SHL }, { "shr", OP_SHR }, { "min", OP_MIN },
	{ "max", OP_MAX }, { "setp", OP_SETP }, { "selp", OP_SELP }, { "cvt", OP_CVT },
	{ "ld", OP_LD }, { "st", OP_ST }, { "atom", OP_ATOM }, { "red", OP_ATOM },
	{ "bra", OP_BRA }, { "brx", OP_BRX }, { "ret", OP_RET }, { "exit", OP_RET },
	{ "trap", OP_TRAP }, { "bar", OP_BAR }, { "barrier", OP_BAR }, { "vote", OP_VOTE },
	{ "shfl", OP_SHFL }, { "call", OP_CALL }, { "fma", OP_FMA }, { "popc", OP_POPC },
	{ "div", OP_DIV }, { "rem", OP_REM }, { "cvta", OP_CVTA }, { "bfind", OP_BFIND },
	{ "bfi", OP_BFI }, { "bar.warp.sync", OP_WARP }, { "neg", OP_NEG },
};

enum where { IN_REGISTER, IN_NUMBER, IN_SPECIAL, IN_PARAM };
enum special {
	TID_X, TID_Y, NTID_X, NTID_Y, CTAID_X, CTAID_Y, NCTAID_X, DYNAMIC, LANE, ONE, NIL, CLOCK,
	GRID_HIGH, GRID_LOW
};

struct operand {
	enum where where;
	uint64_t value; /* register, number, special, or the token of a parameter's name */
	int64_t offset; /* of an address */
};

struct code {
	enum op op;
	char type, from; /* u s f b p; of cvt's source */
	unsigned bits, from_bits;
	char space; /* g s l p, or G: generic */
	bool is_wide, is_negated, is_dest;
	int guard; /* register; -1: none */
	const char *compare; /* eq ne lt le gt ge; or any all ballot; bfly idx up down; or popc */
	struct operand o[4];
	unsigned n;
	uint32_t *targets; /* statements of a branch, or a callee's number */
	unsigned n_targets;
};

struct routine {
	struct gck_flow flow;
	struct code *code; /* one for each statement */
};

struct machine {
	struct gck_ptx *ptx;
	struct routine *routines; /* as ptx->functions */
	uint32_t kernel;
	uint32_t shared;          /* static bytes */
};

static int complain(const struct machine *m, uint32_t token, const char *what)
{
	printf("# machine: line %u, %.*s: %s\n", m->ptx->tokens[token].line,
	       GCK_PTX_TEXT(m->ptx, token), what);
	return -1;
}

/* ---- decoding */

static bool same_text(const struct gck_ptx *p, uint32_t a, uint32_t b)
{
	size_t n = p->tokens[a].end - p->tokens[a].begin;

	return n == p->tokens[b].end - p->tokens[b].begin &&
	       !memcmp(p->text + p->tokens[a].begin, p->text + p->tokens[b].begin, n);
}

static long find_register(const struct machine *m, const struct gck_flow *f, uint32_t token)
{
	char name[64], text[64];

	snprintf(text, sizeof text, "%.*s", GCK_PTX_TEXT(m->ptx, token));
	for (size_t r = 2; r < f->n_registers; r++) {
		const struct gck_register *g = &f->registers[r];

		if (g->number == GCK_NONE)
			snprintf(name, sizeof name, "%.*s", GCK_PTX_TEXT(m->ptx, g->token));
		else
			snprintf(name, sizeof name, "%.*s%u", GCK_PTX_TEXT(m->ptx, g->token),
				 g->number);
		if (!strcmp(name, text))
			return r;
	}
	return -1;
}

/* The address of a variable: of all shared ones behind each other, as in every launch. */
static bool find_variable(const struct machine *m, const struct gck_flow *f, uint32_t token,
			  uint64_t *address)
{
	uint64_t shared = FIRST_SHARED, global = VARIABLES;

	for (size_t i = 0; i < m->ptx->n_items; i++) {
		uint32_t last = m->ptx->items[i].last, at = m->ptx->items[i].first;
		bool is_global = gck_ptx_is(m->ptx, at + 1, ".global");
		bool is_shared = gck_ptx_is(m->ptx, at, ".shared");
		bool is_dynamic = gck_ptx_is(m->ptx, at, ".extern") &&
				  gck_ptx_is(m->ptx, at + 1, ".shared");

		for (; at < last && (is_global || is_shared || is_dynamic); at++)
			if (same_text(m->ptx, at, token)) {
				*address = is_global ? global : is_shared ? shared
						     : FIRST_SHARED + m->shared;
				return true;
			}
		global += is_global ? 64 : 0;
		shared += is_shared ? 1024 : 0;
	}
	for (uint32_t i = 0; i < f->n_statements; i++) {
		const struct gck_ptx_statement *s = &f->statements[i];
		bool is_local = gck_ptx_is(m->ptx, s->op, ".local");
		bool is_shared = gck_ptx_is(m->ptx, s->op, ".shared");

		for (uint32_t at = s->at.first; at < s->at.last && (is_local || is_shared); at++)
			if (same_text(m->ptx, at, token)) {
				*address = is_local ? 64 : shared;
				return true;
			}
		shared += is_shared ? 1024 : 0;
	}
	return false;
}

static bool find_special(const struct machine *m, uint32_t token, struct operand *o)
{
	static const struct {
		const char *name;
		enum special special;
	} names[] = {
		{ "%tid.x", TID_X }, { "%tid.y", TID_Y }, { "%tid.z", NIL }, { "%ntid.x", NTID_X },
		{ "%ntid.y", NTID_Y }, { "%ntid.z", ONE }, { "%ctaid.x", CTAID_X },
		{ "%ctaid.y", CTAID_Y }, { "%ctaid.z", NIL }, { "%nctaid.x", NCTAID_X },
		{ "%nctaid.y", ONE }, { "%nctaid.z", ONE }, { "%laneid", LANE },
		{ "%dynamic_smem_size", DYNAMIC },
		{ "%clock", CLOCK }, { "%envreg1", GRID_HIGH }, { "%envreg2", GRID_LOW },
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (gck_ptx_is(m->ptx, token, names[i].name)) {
			*o = (struct operand){ IN_SPECIAL, names[i].special, 0 };
			return true;
		}
	return false;
}

static bool read_number(const char *text, uint64_t *value)
{
	char *end;

	if (text[0] == '0' && (text[1] == 'f' || text[1] == 'd'))
		*value = strtoull(text + 2, &end, 16);
	else
		*value = strtoull(text, &end, 0);
	return end != text;
}

/* One word of an operand, as a value. */
static int decode_word(const struct machine *m, const struct gck_flow *f, uint32_t token,
		       struct operand *o)
{
	long reg = find_register(m, f, token);
	uint64_t value;

	if (reg >= 0)
		*o = (struct operand){ IN_REGISTER, reg, 0 };
	else if (find_special(m, token, o))
		return 0;
	else if (read_number(m->ptx->text + m->ptx->tokens[token].begin, &value) ||
		 find_variable(m, f, token, &value))
		*o = (struct operand){ IN_NUMBER, value, 0 };
	else
		*o = (struct operand){ IN_PARAM, token, 0 };
	return 0;
}

/* X, -X, [X], [X+N], [X+-N] */
static int decode_operand(const struct machine *m, const struct gck_flow *f,
			  struct gck_ptx_range r, struct operand *o)
{
	bool is_memory = gck_ptx_is(m->ptx, r.first, "[");
	uint32_t at = r.first + is_memory;
	bool is_minus = gck_ptx_is(m->ptx, at, "-");

	at += is_minus;
	if (decode_word(m, f, at, o))
		return -1;
	if (is_minus)
		o->value = -o->value;
	if (is_memory && gck_ptx_is(m->ptx, at + 1, "+")) {
		bool minus = gck_ptx_is(m->ptx, at + 2, "-");
		uint64_t value;

		if (!read_number(m->ptx->text + m->ptx->tokens[at + 2 + minus].begin, &value))
			return complain(m, at, "no offset");
		o->offset = minus ? -(int64_t)value : (int64_t)value;
	}
	return 0;
}

static void decode_type(const struct machine *m, uint32_t op, struct code *c)
{
	static const struct {
		const char *name;
		char type;
		unsigned bits;
	} types[] = {
		{ "u32", 'u', 32 }, { "s32", 's', 32 }, { "b32", 'b', 32 }, { "u64", 'u', 64 },
		{ "s64", 's', 64 }, { "b64", 'b', 64 }, { "f32", 'f', 32 }, { "f64", 'f', 64 },
		{ "pred", 'p', 1 }, { "b8", 'b', 8 }, { "u8", 'u', 8 },
		{ "u16", 'u', 16 }, { "b16", 'b', 16 },
	};
	const char *text = m->ptx->text + m->ptx->tokens[op].begin;
	const char *end = m->ptx->text + m->ptx->tokens[op].end;

	for (; text < end; text++)
		for (size_t i = 0; *text == '.' && i < sizeof types / sizeof *types; i++) {
			size_t n = strlen(types[i].name);

			if (strncmp(text + 1, types[i].name, n) || (text[n + 1] != '.' &&
								    text + n + 1 != end))
				continue;
			c->from = c->type ? types[i].type : c->from;
			c->from_bits = c->type ? types[i].bits : c->from_bits;
			c->type = c->type ? c->type : types[i].type;
			c->bits = c->bits ? c->bits : types[i].bits;
		}
}

static void decode_modifiers(const struct machine *m, uint32_t op, struct code *c)
{
	static const char *const words[] = { "eq", "ne", "lt", "le", "gt", "ge", "any", "all",
					     "ballot", "bfly", "idx", "popc", "or", "and" };
	static const char *const spaces[] = { "global", "shared", "local", "param" };

	decode_type(m, op, c);
	c->space = 'G';
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (gck_instruction_has(m->ptx, op, spaces[i]))
			c->space = *spaces[i];
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (gck_instruction_has(m->ptx, op, words[i]) && !c->compare)
			c->compare = words[i];
	c->is_wide = gck_instruction_has(m->ptx, op, "wide");
	if (c->op == OP_BAR && gck_instruction_has(m->ptx, op, "red"))
		c->op = OP_BARRED;
}

static uint32_t find_label(const struct gck_flow *f, const struct gck_ptx *p, uint32_t token)
{
	for (uint32_t i = 0; i < f->n_statements; i++)
		if (f->statements[i].does == GCK_PTX_LABEL &&
		    same_text(p, f->statements[i].op, token))
			return i;
	return 0;
}

static void decode_branch(const struct machine *m, const struct gck_flow *f,
			  const struct gck_ptx_statement *s, struct code *c)
{
	uint32_t token = m->ptx->operands[s->operand + s->n_operands - 1].first;
	uint32_t label = find_label(f, m->ptx, token);
	const struct gck_ptx_statement *table = &f->statements[label + 1];

	c->n_targets = c->op == OP_BRA ? 1 : table->n_operands;
	c->targets = calloc(c->n_targets, sizeof *c->targets);
	if (!c->targets)
		abort();
	for (unsigned i = 0; i < c->n_targets; i++)
		c->targets[i] = c->op == OP_BRA ? label
			: find_label(f, m->ptx, m->ptx->operands[table->operand + i].first);
}

/* call (RESULT), NAME, (A, B); the names of parameters */
static int decode_call(const struct machine *m, const struct gck_ptx_statement *s, struct code *c)
{
	const struct gck_ptx_range *o = &m->ptx->operands[s->operand];

	c->targets = calloc(1, sizeof *c->targets);
	if (!c->targets)
		abort();
	for (size_t i = 0; i < m->ptx->n_functions; i++)
		if (same_text(m->ptx, m->ptx->functions[i].name, o[1].first))
			c->targets[0] = i;
	c->n = 0;
	for (unsigned k = 0; k < 3; k += 2)
		for (uint32_t at = o[k].first; at < o[k].last; at++)
			if (m->ptx->tokens[at].kind == GCK_PTX_WORD && c->n < 4)
				c->o[c->n++] = (struct operand){ IN_PARAM, at, 0 };
	return 0;
}

/* mov.b64 D, {A, B}; and mov.b64 {A, B}, D; the operands in their order */
static int decode_halves(const struct machine *m, const struct gck_flow *f,
			 const struct gck_ptx_statement *s, struct code *c)
{
	const struct gck_ptx_range *o = &m->ptx->operands[s->operand];

	c->op = gck_ptx_is(m->ptx, o[0].first, "{") ? OP_SPLIT : OP_PACK;
	for (unsigned i = 0; i < 2; i++) {
		bool has_halves = gck_ptx_is(m->ptx, o[i].first, "{");

		for (uint32_t at = o[i].first + has_halves; at < o[i].last && c->n < 3; at += 2)
			if (decode_word(m, f, at, &c->o[c->n++]))
				return -1;
	}
	return 0;
}

static int decode(const struct machine *m, const struct gck_flow *f, uint32_t i, struct code *c)
{
	const struct gck_ptx_statement *s = &f->statements[i];

	c->guard = -1;
	if (s->does != GCK_PTX_INSTRUCTION)
		return 0;
	for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
		size_t n = strlen(ops[k].name);
		const char *text = m->ptx->text + m->ptx->tokens[s->op].begin;

		if (!strncmp(text, ops[k].name, n) && strchr(". ;", text[n]))
			c->op = ops[k].op;
		if (!strncmp(text, "red.", 4))
			c->is_dest = false;
	}
	if (!c->op)
		return complain(m, s->op, "not known");
	decode_modifiers(m, s->op, c);
	if (s->guard)
		c->guard = find_register(m, f, s->guard);
	c->is_negated = s->negated;
	c->is_dest = !gck_instruction_has(m->ptx, s->op, "red") &&
		     strncmp(m->ptx->text + m->ptx->tokens[s->op].begin, "red", 3);
	if (c->op == OP_BRA || c->op == OP_BRX)
		decode_branch(m, f, s, c);
	if (c->op == OP_CALL)
		return decode_call(m, s, c);
	if (c->op == OP_MOV && c->bits == 64 &&
	    (gck_ptx_is(m->ptx, m->ptx->operands[s->operand].first, "{") ||
	     gck_ptx_is(m->ptx, m->ptx->operands[s->operand + 1].first, "{")))
		return decode_halves(m, f, s, c);
	for (c->n = 0; c->n < s->n_operands && c->n < 4; c->n++)
		if (c->op != OP_BRA &&
		    decode_operand(m, f, m->ptx->operands[s->operand + c->n], &c->o[c->n]))
			return -1;
	return 0;
}

static uint32_t count_shared(const struct machine *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->ptx->n_tokens; i++)
		if (gck_ptx_is(m->ptx, i, ".shared") &&
		    !(i && gck_ptx_is(m->ptx, i - 1, ".extern")))
			n += 1024; /* more than any of the tests has */
	return n;
}

struct machine *machine_create(const char *text, size_t size)
{
	struct machine *m = calloc(1, sizeof *m);
	struct gck_error err = { 0 };

	m->ptx = gck_ptx_read(text, size, &err);
	if (!m->ptx) {
		printf("# machine: %s\n", err.text);
		free(m);
		return NULL;
	}
	m->routines = calloc(m->ptx->n_functions + 1, sizeof *m->routines);
	m->shared = count_shared(m);
	for (size_t i = 0; i < m->ptx->n_functions; i++) {
		struct routine *r = &m->routines[i];

		if (m->ptx->functions[i].is_entry)
			m->kernel = i;
		if (gck_flow_make(&r->flow, m->ptx, &m->ptx->functions[i], &err)) {
			printf("# machine: %s\n", err.text);
			machine_free(m);
			return NULL;
		}
		r->code = calloc(r->flow.n_statements + 1, sizeof *r->code);
		for (uint32_t k = 0; k < r->flow.n_statements; k++)
			if (decode(m, &r->flow, k, &r->code[k])) {
				machine_free(m);
				return NULL;
			}
	}
	return m;
}

void machine_free(struct machine *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->ptx->n_functions; i++) {
		struct routine *r = &m->routines[i];

		for (uint32_t k = 0; r->code && k < r->flow.n_statements; k++)
			free(r->code[k].targets);
		free(r->code);
		gck_flow_clear(&r->flow);
	}
	free(m->routines);
	gck_ptx_free(m->ptx);
	free(m);
}

uint64_t machine_variable(const struct machine *m, const char *name, uint8_t *memory)
{
	for (uint32_t i = 0; i < m->ptx->n_tokens; i++)
		if (gck_ptx_is(m->ptx, i, name) && gck_ptx_is(m->ptx, i + 5, "{")) {
			uint64_t address = 0, value;

			find_variable(m, &m->routines[m->kernel].flow, i, &address);
			for (unsigned k = 0; k < 6; k++) {
				uint32_t at = i + 6 + 2 * k;

				read_number(m->ptx->text + m->ptx->tokens[at].begin, &value);
				memcpy(memory + address - MACHINE_GLOBAL + 8 * k, &value, 8);
			}
			return address;
		}
	return 0;
}

/* ---- running */

enum state { RUNS, WAITS, WITH_WARP, ENDED };

struct frame {
	uint32_t routine, pc;
	uint64_t *registers;
	uint64_t params[4]; /* of the callee: results, then arguments */
	uint32_t names[4];  /* of parameters that were stored here, for a call */
	uint64_t values[4];
	unsigned n_values;
};

struct thread {
	enum state state;
	struct frame frames[FRAMES];
	unsigned depth, number;
	uint8_t local[MOST_LOCAL];
};

struct block {
	unsigned number, ended;
	struct thread *threads;
	uint8_t shared[FIRST_SHARED + MOST_SHARED];
};

struct run {
	struct machine *m;
	struct launch *l;
	uint8_t *memory;
	unsigned random;
	bool failed;
};

static unsigned draw(struct run *r, unsigned n)
{
	r->random = r->random * 1664525 + 1013904223;
	return (r->random >> 8) % n;
}

#define CLOCK_STEP 200000 /* more than a kernel waits between two looks at the word */
#define SHORT_STEP 20000  /* less: points are counted then */

static uint64_t special_value(const struct run *r, const struct block *b, const struct thread *t,
			      enum special s)
{
	static uint32_t clock, looks;

	switch (s) {
	case CLOCK: return clock += ++looks % 3 ? CLOCK_STEP : SHORT_STEP;
	case TID_X: return t->number;
	case NTID_X: return r->l->threads;
	case CTAID_X: return b->number;
	case NCTAID_X: return r->l->blocks;
	case DYNAMIC: return r->l->dynamic;
	case LANE: return t->number % 32;
	case GRID_HIGH: return r->l->workspace >> 32;
	case GRID_LOW: return (uint32_t)r->l->workspace;
	case NTID_Y: case ONE: return 1;
	default: return 0;
	}
}

static uint64_t mask(uint64_t v, unsigned bits)
{
	return bits < 64 ? v & ((1ull << bits) - 1) : v;
}

static uint64_t value_of(struct run *r, struct block *b, struct thread *t, const struct operand *o)
{
	struct frame *f = &t->frames[t->depth];

	if (o->where == IN_REGISTER)
		return f->registers[o->value];
	if (o->where == IN_SPECIAL)
		return special_value(r, b, t, o->value);
	return o->value;
}

static void put(struct run *r, struct thread *t, const struct operand *o, uint64_t v)
{
	struct frame *f = &t->frames[t->depth];
	const struct gck_register *g;

	if (o->where != IN_REGISTER)
		return;
	g = &r->m->routines[f->routine].flow.registers[o->value];
	f->registers[o->value] = mask(v, g->bits);
}

static uint8_t *bytes_at(struct run *r, struct block *b, struct thread *t, char space, uint64_t a,
			 unsigned n)
{
	if (space == 'G')
		space = a >= LOCAL ? 'l' : a >= SHARED ? 's' : 'g';
	if (space == 'g' && a >= MACHINE_GLOBAL && a + n <= MACHINE_GLOBAL + MACHINE_BYTES)
		return r->memory + a - MACHINE_GLOBAL;
	a -= space == 's' && a >= SHARED ? SHARED : space == 'l' && a >= LOCAL ? LOCAL : 0;
	if (space == 's' && a >= FIRST_SHARED && a + n <= sizeof b->shared)
		return b->shared + a;
	if (space == 'l' && a + n <= MOST_LOCAL)
		return t->local + a;
	r->failed = true;
	printf("# machine: a wild address %#llx (%c) in thread %u of block %u\n",
	       (unsigned long long)a, space, t->number, b->number);
	return NULL;
}

/* Parameters: of the kernel by their number, else by name. */
static uint64_t *param_at(struct run *r, struct thread *t, const struct operand *o)
{
	struct frame *f = &t->frames[t->depth];
	const struct gck_ptx *p = r->m->ptx;
	const struct gck_ptx_range *h = &p->functions[f->routine].header;
	unsigned n = 0;

	for (uint32_t at = h->first; at < h->last; at++) {
		if (!gck_ptx_is(p, at, ".param"))
			continue;
		for (uint32_t k = at; k < h->last && !gck_ptx_is(p, k, ",") &&
				      !gck_ptx_is(p, k, ")"); k++)
			if (same_text(p, k, o->value))
				return &f->params[n];
		n++;
	}
	for (unsigned i = 0; i < f->n_values; i++)
		if (same_text(p, f->names[i], o->value))
			return &f->values[i];
	if (f->n_values == 4)
		f->n_values = 0;
	f->names[f->n_values] = o->value;
	return &f->values[f->n_values++];
}

static int64_t sign(uint64_t v, unsigned bits)
{
	return bits == 32 ? (int32_t)v : (int64_t)v;
}

static uint64_t floats(const struct code *c, uint64_t x, uint64_t y, uint64_t z)
{
	double d[3], e = 0;
	float s[3], g = 0;

	if (c->bits == 64) {
		memcpy(d, (uint64_t[]){ x, y, z }, sizeof d);
		e = c->op == OP_ADD ? d[0] + d[1] : c->op == OP_SUB ? d[0] - d[1]
		  : c->op == OP_MUL ? d[0] * d[1] : c->op == OP_FMA ? fma(d[0], d[1], d[2]) : 0;
		memcpy(&x, &e, 8);
		return x;
	}
	memcpy(s, (uint32_t[]){ x, y, z }, sizeof s);
	g = c->op == OP_ADD ? s[0] + s[1] : c->op == OP_SUB ? s[0] - s[1]
	  : c->op == OP_MUL ? s[0] * s[1] : c->op == OP_FMA ? fmaf(s[0], s[1], s[2]) : 0;
	x = 0;
	memcpy(&x, &g, 4);
	return x;
}

static bool compares(const struct code *c, uint64_t x, uint64_t y)
{
	uint64_t flip = c->type == 's' ? 1ull << (c->bits - 1) : 0; /* signed in their order */
	uint64_t a = mask(x, c->bits) ^ flip, b = mask(y, c->bits) ^ flip;
	int order = (a > b) - (a < b);

	switch (c->compare[0] << 8 | c->compare[1]) {
	case 'e' << 8 | 'q': return order == 0;
	case 'n' << 8 | 'e': return order != 0;
	case 'l' << 8 | 't': return order < 0;
	case 'l' << 8 | 'e': return order <= 0;
	case 'g' << 8 | 't': return order > 0;
	default: return order >= 0;
	}
}

static uint64_t convert(const struct code *c, uint64_t x)
{
	float s;
	double d;

	x = mask(x, c->from_bits);
	if (c->type == 'f' && c->from != 'f') {
		s = (float)(uint32_t)x;
		d = (double)(uint32_t)x;
		x = 0;
		memcpy(&x, c->bits == 32 ? (void *)&s : (void *)&d, c->bits / 8);
	}
	return c->from == 's' ? (uint64_t)sign(x, c->from_bits) : x;
}

static uint64_t compute(const struct code *c, uint64_t x, uint64_t y, uint64_t z)
{
	if (c->type == 'f' && c->op != OP_MOV && c->op != OP_CVT && c->op != OP_SELP)
		return floats(c, x, y, z);
	if (c->is_wide)
		x = c->type == 's' ? (uint64_t)sign(x, 32) : mask(x, 32),
		y = c->type == 's' ? (uint64_t)sign(y, 32) : mask(y, 32);
	switch (c->op) {
	case OP_ADD: return x + y;
	case OP_SUB: return x - y;
	case OP_MUL: return x * y;
	case OP_MAD: return x * y + z;
	case OP_AND: return x & y;
	case OP_OR: return x | y;
	case OP_XOR: return x ^ y;
	case OP_NOT: return ~x;
	case OP_NEG: return -x;
	case OP_SHL: return y >= c->bits ? 0 : x << y;
	case OP_SHR: return y >= c->bits ? 0 : mask(x, c->bits) >> y;
	case OP_MIN: return mask(x, c->bits) < mask(y, c->bits) ? x : y;
	case OP_MAX: return mask(x, c->bits) > mask(y, c->bits) ? x : y;
	case OP_SETP: return compares(c, x, y);
	case OP_SELP: return z & 1 ? x : y;
	case OP_CVT: return convert(c, x);
	case OP_BFI: return mask(y, 32) | x << 32; /* of two halves */
	case OP_BFIND: return mask(x, 32) ? 31u - __builtin_clz(x) : UINT32_MAX;
	case OP_POPC: return __builtin_popcountll(mask(x, c->bits));
	case OP_DIV: return mask(y, c->bits) ? mask(x, c->bits) / mask(y, c->bits) : 0;
	case OP_REM: return mask(y, c->bits) ? mask(x, c->bits) % mask(y, c->bits) : 0;
	case OP_CVTA: return x + (c->space == 's' ? SHARED : c->space == 'l' ? LOCAL : 0);
	default: return x;
	}
}

static void access_memory(struct run *r, struct block *b, struct thread *t, const struct code *c)
{
	const struct operand *o = &c->o[c->op == OP_ST || !c->is_dest ? 0 : 1];
	unsigned n = c->bits / 8;
	uint64_t a, old = 0, v;
	uint8_t *at;

	if (c->space == 'p') {
		if (c->op == OP_ST)
			*param_at(r, t, o) = mask(value_of(r, b, t, &c->o[1]), c->bits);
		else
			put(r, t, &c->o[0], *param_at(r, t, o));
		return;
	}
	a = value_of(r, b, t, o) + o->offset;
	at = bytes_at(r, b, t, c->space, c->space == 's' ? mask(a, 32) : a, n);
	if (!at)
		return;
	if (c->op == OP_ST) {
		v = value_of(r, b, t, &c->o[1]);
		memcpy(at, &v, n);
		return;
	}
	memcpy(&old, at, n);
	if (c->op == OP_ATOM) {
		v = old + value_of(r, b, t, &c->o[c->is_dest ? 2 : 1]);
		memcpy(at, &v, n);
	}
	if (c->op == OP_LD || c->is_dest)
		put(r, t, &c->o[0], old);
}

static void enter(struct run *r, struct thread *t, uint32_t routine)
{
	struct frame *f = &t->frames[t->depth];
	size_t n = r->m->routines[routine].flow.n_registers;

	f->routine = routine;
	f->pc = f->n_values = 0;
	f->registers = malloc(n * 8);
	for (size_t i = 0; i < n; i++) /* a register begins with anything */
		f->registers[i] = mask(0x1234567089abcdefull * (draw(r, 1000) + 1),
				       r->m->routines[routine].flow.registers[i].bits);
}

static void call(struct run *r, struct thread *t, const struct code *c)
{
	uint64_t arguments[4] = { 0 };

	for (unsigned i = 1; i < c->n; i++)
		arguments[i] = *param_at(r, t, &c->o[i]);
	t->depth++;
	enter(r, t, c->targets[0]);
	memcpy(t->frames[t->depth].params, arguments, sizeof arguments);
}

static void leave(struct run *r, struct block *b, struct thread *t)
{
	struct frame *f = &t->frames[t->depth];
	const struct code *c;

	free(f->registers);
	if (!t->depth) {
		t->state = ENDED;
		b->ended++;
		return;
	}
	t->depth--;
	c = &r->m->routines[t->frames[t->depth].routine].code[t->frames[t->depth].pc - 1];
	*param_at(r, t, &c->o[0]) = f->params[0];
}

/* One instruction. A thread that waits stays at it. */
static void step(struct run *r, struct block *b, struct thread *t)
{
	struct frame *f = &t->frames[t->depth];
	const struct routine *routine = &r->m->routines[f->routine];
	const struct code *c = &routine->code[f->pc];
	uint64_t index;

	if (f->pc >= routine->flow.n_statements) {
		leave(r, b, t);
		return;
	}
	f->pc++;
	if (!c->op || (c->guard >= 0 && (f->registers[c->guard] & 1) == c->is_negated))
		return;
	switch (c->op) {
	case OP_LD: case OP_ST: case OP_ATOM: access_memory(r, b, t, c); break;
	case OP_BRA: f->pc = c->targets[0]; break;
	case OP_BRX:
		index = value_of(r, b, t, &c->o[0]);
		f->pc = c->targets[index < c->n_targets ? index : 0];
		break;
	case OP_PACK:
		put(r, t, &c->o[0], mask(value_of(r, b, t, &c->o[1]), 32) |
					    value_of(r, b, t, &c->o[2]) << 32);
		break;
	case OP_SPLIT:
		put(r, t, &c->o[0], value_of(r, b, t, &c->o[2]));
		put(r, t, &c->o[1], value_of(r, b, t, &c->o[2]) >> 32);
		break;
	case OP_RET: leave(r, b, t); break;
	case OP_TRAP:
		printf("# machine: trap\n");
		r->failed = true;
		break;
	case OP_BAR: case OP_BARRED: t->state = WAITS; f->pc--; break;
	case OP_VOTE: case OP_SHFL: case OP_WARP: t->state = WITH_WARP; f->pc--; break;
	case OP_CALL: call(r, t, c); break;
	default:
		put(r, t, &c->o[0], compute(c, value_of(r, b, t, &c->o[1]),
					    value_of(r, b, t, &c->o[2]),
					    value_of(r, b, t, &c->o[3])));
	}
}

static const struct code *code_of(const struct run *r, const struct thread *t)
{
	const struct frame *f = &t->frames[t->depth];

	return &r->m->routines[f->routine].code[f->pc];
}

/* All threads that have not ended wait: the barrier is done. */
static void pass_barrier(struct run *r, struct block *b)
{
	unsigned count = 0, all = 0;
	const struct code *first = NULL;

	for (unsigned i = 0; i < r->l->threads; i++) {
		struct thread *t = &b->threads[i];
		const struct code *c = t->state == WAITS ? code_of(r, t) : NULL;

		if (!c)
			continue;
		first = first ? first : c;
		if (c->op != first->op || c->compare != first->compare) {
			printf("# machine: two kinds of barriers meet\n");
			r->failed = true;
		}
		all++;
		count += c->op == OP_BARRED && (value_of(r, b, t, &c->o[2]) & 1);
	}
	for (unsigned i = 0; i < r->l->threads; i++) {
		struct thread *t = &b->threads[i];
		const struct code *c = t->state == WAITS ? code_of(r, t) : NULL;

		if (!c)
			continue;
		t->frames[t->depth].pc++;
		t->state = RUNS;
		if (c->op == OP_BARRED)
			put(r, t, &c->o[0], *c->compare == 'p' ? count
					    : *c->compare == 'o' ? count > 0 : count == all);
	}
}

static uint64_t shuffle(struct run *r, struct block *b, unsigned i, const uint64_t *values)
{
	struct thread *t = &b->threads[i];
	const struct code *c = code_of(r, t);
	unsigned lane = i % 32, y = value_of(r, b, t, &c->o[2]);
	unsigned from = i - lane + (*c->compare == 'b' ? lane ^ (y & 31) : y & 31);

	return from < r->l->threads && b->threads[from].state == WITH_WARP ? values[from % 32]
									   : values[lane];
}

/* Lets a warp go on if all of its threads that have not ended are at the same instruction. */
static bool pass_warp(struct run *r, struct block *b, unsigned first)
{
	unsigned last = first + 32 < r->l->threads ? first + 32 : r->l->threads, any = 0;
	const struct code *c = NULL;
	uint64_t values[32], results[32];

	for (unsigned i = first; i < last; i++) {
		struct thread *t = &b->threads[i];

		if (t->state == ENDED)
			continue;
		if (t->state != WITH_WARP || (c && code_of(r, t) != c))
			return false;
		c = code_of(r, t);
		values[i % 32] = value_of(r, b, t, &c->o[1]);
		any |= values[i % 32] & 1;
	}
	for (unsigned i = first; c && c->op != OP_WARP && i < last; i++)
		if (b->threads[i].state == WITH_WARP)
			results[i % 32] = c->op == OP_VOTE ? any : shuffle(r, b, i, values);
	for (unsigned i = first; c && i < last; i++)
		if (b->threads[i].state == WITH_WARP) {
			if (c->op != OP_WARP)
				put(r, &b->threads[i], &c->o[0], results[i % 32]);
			b->threads[i].frames[b->threads[i].depth].pc++;
			b->threads[i].state = RUNS;
		}
	return c != NULL;
}

static void begin_block(struct run *r, struct block *b, unsigned number)
{
	memset(b, 0, sizeof *b);
	b->number = number;
	b->threads = calloc(r->l->threads, sizeof *b->threads);
	memset(b->shared, 0xa5 + draw(r, 50), sizeof b->shared);
	for (unsigned i = 0; i < r->l->threads; i++) {
		struct thread *t = &b->threads[i];

		t->number = i;
		memset(t->local, draw(r, 256), sizeof t->local);
		enter(r, t, r->m->kernel);
		memcpy(t->frames[0].params, r->l->params, sizeof r->l->params);
	}
}

static void set_word(struct run *r)
{
	if (r->l->stop && r->l->steps >= r->l->stop)
		memcpy(r->memory + r->l->word - MACHINE_GLOBAL, &(uint32_t){ 1 }, 4);
}

/* Some instructions of a random thread; false if none can run. */
static bool turn(struct run *r, struct block *b)
{
	unsigned n = r->l->threads, at = draw(r, n), waiting = 0;

	for (unsigned i = 0; i < n; i++) {
		struct thread *t = &b->threads[(at + i) % n];

		waiting += t->state == WAITS;
		if (t->state != RUNS)
			continue;
		for (unsigned k = 1 + draw(r, 60); k && t->state == RUNS && !r->failed; k--) {
			step(r, b, t);
			r->l->steps++;
		}
		set_word(r);
		return true;
	}
	for (unsigned i = 0; i < n; i += 32)
		if (pass_warp(r, b, i))
			return true;
	if (waiting && waiting + b->ended == n) {
		pass_barrier(r, b);
		return true;
	}
	return false;
}

static void end_block(struct run *r, struct block *b)
{
	for (unsigned i = 0; b->threads && i < r->l->threads; i++)
		for (unsigned d = 0; b->threads[i].state != ENDED && d <= b->threads[i].depth; d++)
			free(b->threads[i].frames[d].registers);
	free(b->threads);
	b->threads = NULL;
}

int machine_run(struct machine *m, uint8_t *memory, struct launch *l)
{
	struct run r = { m, l, memory, l->seed, false };
	struct block *blocks = calloc(l->resident, sizeof *blocks);
	unsigned next = 0, live = 0;

	l->steps = 0;
	set_word(&r);
	while (!r.failed && (next < l->blocks || live)) {
		struct block *b = &blocks[draw(&r, l->resident)];

		if (!b->threads && next < l->blocks) {
			begin_block(&r, b, next++);
			live++;
		} else if (b->threads && b->ended == l->threads) {
			end_block(&r, b);
			live--;
		} else if (b->threads && (!turn(&r, b) || l->steps > MOST_STEPS)) {
			printf("# machine: block %u never ends\n", b->number);
			r.failed = true;
		}
	}
	for (unsigned i = 0; i < l->resident; i++)
		end_block(&r, &blocks[i]);
	free(blocks);
	return r.failed ? -1 : 0;
}
