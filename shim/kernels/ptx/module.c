/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/ptx/ptx.h"

#define MOST_BRACES 64

struct parser {
	struct gck_ptx *ptx;
	uint32_t at;         /* the next token */
	uint32_t file, line; /* of the last .loc */
	struct gck_error *err;
};

bool gck_ptx_is(const struct gck_ptx *ptx, uint32_t token, const char *text)
{
	const struct gck_ptx_token *t = &ptx->tokens[token];

	return t->end - t->begin == strlen(text) &&
	       !memcmp(ptx->text + t->begin, text, t->end - t->begin);
}

bool gck_ptx_begins(const struct gck_ptx *ptx, uint32_t token, const char *text)
{
	const struct gck_ptx_token *t = &ptx->tokens[token];

	return t->end - t->begin >= strlen(text) &&
	       !memcmp(ptx->text + t->begin, text, strlen(text));
}

bool gck_ptx_same(const struct gck_ptx *ptx, uint32_t a, uint32_t b)
{
	const struct gck_ptx_token *x = &ptx->tokens[a], *y = &ptx->tokens[b];

	return x->end - x->begin == y->end - y->begin &&
	       !memcmp(ptx->text + x->begin, ptx->text + y->begin, x->end - x->begin);
}

static bool is_one_of(const struct gck_ptx *ptx, uint32_t token, const char *const *names)
{
	for (; *names; names++)
		if (gck_ptx_is(ptx, token, *names))
			return true;
	return false;
}

static int fail_at(struct parser *p, uint32_t token, const char *what)
{
	const struct gck_ptx_token *t = &p->ptx->tokens[token];
	int length = t->end - t->begin;

	if (t->kind == GCK_PTX_END)
		return gck_fail(p->err, EINVAL, "line %u: the text ends: %s", t->line, what);
	return gck_fail(p->err, EINVAL, "line %u: %s: at \"%.*s\"", t->line, what,
			length < 60 ? length : 60, p->ptx->text + t->begin);
}

static enum gck_ptx_kind kind(const struct parser *p)
{
	return p->ptx->tokens[p->at].kind;
}

static bool is_sign(const struct parser *p, uint32_t token, char sign)
{
	const struct gck_ptx_token *t = &p->ptx->tokens[token];

	return t->kind == GCK_PTX_SIGN && p->ptx->text[t->begin] == sign;
}

/* Goes behind the rest of the line that token `first` is on. */
static void to_line_end(struct parser *p, uint32_t first)
{
	while (kind(p) != GCK_PTX_END &&
	       p->ptx->tokens[p->at].line == p->ptx->tokens[first].line)
		p->at++;
}

/* Goes behind the sign that closes what p->at opens. Braces of all kinds must match. */
static int to_matching(struct parser *p)
{
	static const char opens[] = "{([", closes[] = "})]";
	char expected[MOST_BRACES];
	unsigned depth = 0;

	if (kind(p) == GCK_PTX_END)
		return fail_at(p, p->at, "a brace is expected");
	do {
		const struct gck_ptx_token *t = &p->ptx->tokens[p->at];
		char c = t->kind == GCK_PTX_SIGN ? p->ptx->text[t->begin] : 0;

		if (t->kind == GCK_PTX_END)
			return fail_at(p, p->at, "a bracket is open");
		if (c && strchr(opens, c)) {
			if (depth == MOST_BRACES)
				return fail_at(p, p->at, "too many brackets");
			expected[depth++] = closes[strchr(opens, c) - opens];
		} else if (c && strchr(closes, c) && expected[--depth] != c) {
			return fail_at(p, p->at, "another bracket is open");
		}
		p->at++;
	} while (depth);
	return 0;
}

static int add_operand(struct parser *p, uint32_t first)
{
	struct gck_ptx *x = p->ptx;
	struct gck_ptx_range *more = gck_ptx_grow(x->operands, x->n_operands, sizeof *more, p->err);

	if (!more)
		return -1;
	x->operands = more;
	more[x->n_operands++] = (struct gck_ptx_range){ first, p->at };
	return 0;
}

/* Reads operands up to and with the semicolon. */
static int read_operands(struct parser *p, struct gck_ptx_statement *s)
{
	uint32_t first = p->at;

	s->operand = p->ptx->n_operands;
	for (;;) {
		if (kind(p) == GCK_PTX_END)
			return fail_at(p, p->at, "a statement has no semicolon");
		if (kind(p) == GCK_PTX_MARK)
			return fail_at(p, p->at, "a point within a statement");
		if (is_sign(p, p->at, '{') || is_sign(p, p->at, '(') || is_sign(p, p->at, '[')) {
			if (to_matching(p))
				return -1;
		} else if (is_sign(p, p->at, ';') || is_sign(p, p->at, ',')) {
			bool last = is_sign(p, p->at, ';');

			if (first == p->at && (!last || p->ptx->n_operands > s->operand))
				return fail_at(p, p->at, "an operand is missing");
			if (first != p->at && add_operand(p, first))
				return -1;
			first = ++p->at;
			if (last)
				break;
		} else if (is_sign(p, p->at, '}') || is_sign(p, p->at, ')') ||
			   is_sign(p, p->at, ']')) {
			return fail_at(p, p->at, "a statement has no semicolon");
		} else {
			p->at++;
		}
	}
	s->n_operands = p->ptx->n_operands - s->operand;
	return 0;
}

/* .loc FILE LINE COLUMN…: the place in the source of what follows. */
static void read_loc(struct parser *p)
{
	const struct gck_ptx *x = p->ptx;

	p->file = strtoul(x->text + x->tokens[p->at + 1].begin, NULL, 10);
	p->line = strtoul(x->text + x->tokens[p->at + 2].begin, NULL, 10);
}

static int read_directive(struct parser *p, struct gck_ptx_statement *s)
{
	s->does = GCK_PTX_DIRECTIVE;
	if (gck_ptx_is(p->ptx, p->at, ".loc") && p->at + 2 < p->ptx->n_tokens)
		read_loc(p);
	if (gck_ptx_is(p->ptx, p->at, ".loc") || gck_ptx_is(p->ptx, p->at, ".file")) {
		to_line_end(p, p->at);
		return 0;
	}
	p->at++;
	return read_operands(p, s);
}

static int read_instruction(struct parser *p, struct gck_ptx_statement *s)
{
	s->does = GCK_PTX_INSTRUCTION;
	if (is_sign(p, p->at, '@')) {
		p->at++;
		s->negated = is_sign(p, p->at, '!');
		p->at += s->negated;
		if (kind(p) != GCK_PTX_WORD)
			return fail_at(p, p->at, "a guard needs a predicate");
		s->guard = p->at++;
	}
	if (kind(p) != GCK_PTX_WORD)
		return fail_at(p, p->at, "an instruction is expected");
	s->op = p->at++;
	return read_operands(p, s);
}

/* One statement; brace is what it does to the depth. */
static int read_statement(struct parser *p, struct gck_ptx_statement *s, int *brace)
{
	*brace = 0;
	s->op = s->at.first = p->at;
	if (is_sign(p, p->at, '{') || is_sign(p, p->at, '}')) {
		*brace = is_sign(p, p->at, '{') ? 1 : -1;
		s->does = *brace > 0 ? GCK_PTX_OPEN : GCK_PTX_CLOSE;
		p->at++;
	} else if (kind(p) == GCK_PTX_MARK) {
		s->does = GCK_PTX_POINT;
		p->at++;
	} else if (kind(p) == GCK_PTX_WORD && is_sign(p, p->at + 1, ':')) {
		s->does = GCK_PTX_LABEL;
		p->at += 2;
	} else if (kind(p) == GCK_PTX_WORD && p->ptx->text[p->ptx->tokens[p->at].begin] == '.') {
		if (read_directive(p, s))
			return -1;
	} else if (kind(p) == GCK_PTX_WORD || is_sign(p, p->at, '@')) {
		if (read_instruction(p, s))
			return -1;
	} else {
		return fail_at(p, p->at, "a statement is expected");
	}
	s->at.last = p->at;
	s->file = p->file;
	s->line = p->line;
	return 0;
}

/* The statements of a body; p->at is at its brace. */
static int read_body(struct parser *p, struct gck_ptx_function *f)
{
	struct gck_ptx *x = p->ptx;
	int brace;

	f->has_body = true;
	f->statement = x->n_statements;
	p->file = p->line = 0;
	p->at++;
	for (uint32_t depth = 0; depth || !is_sign(p, p->at, '}'); ) {
		struct gck_ptx_statement s = { .depth = depth };
		struct gck_ptx_statement *more;

		if (is_sign(p, p->at, ';')) { /* an empty statement stays in the text */
			p->at++;
			continue;
		}
		if (read_statement(p, &s, &brace))
			return -1;
		depth += brace;
		s.depth -= brace < 0;
		if (depth > MOST_BRACES)
			return fail_at(p, s.at.first, "too many brackets");
		more = gck_ptx_grow(x->statements, x->n_statements, sizeof *more, p->err);
		if (!more)
			return -1;
		x->statements = more;
		more[x->n_statements++] = s;
	}
	f->n_statements = x->n_statements - f->statement;
	p->at++;
	return 0;
}

/* The name is the first word behind .entry, or behind .func and what it returns. */
static int read_name(struct parser *p, struct gck_ptx_function *f)
{
	p->at++;
	if (!f->is_entry && is_sign(p, p->at, '(') && to_matching(p))
		return -1;
	if (!f->is_entry && gck_ptx_is(p->ptx, p->at, ".noreturn"))
		p->at++;
	if (kind(p) != GCK_PTX_WORD)
		return fail_at(p, p->at, "a function has no name");
	f->name = p->at++;
	return 0;
}

static int read_function(struct parser *p, uint32_t first)
{
	struct gck_ptx *x = p->ptx;
	struct gck_ptx_function f = { .is_entry = gck_ptx_is(x, p->at, ".entry") }, *more;

	if (read_name(p, &f))
		return -1;
	while (!is_sign(p, p->at, '{') && !is_sign(p, p->at, ';')) {
		if (kind(p) == GCK_PTX_END)
			return fail_at(p, p->at, "a function has no body");
		if (is_sign(p, p->at, '(')) {
			if (to_matching(p))
				return -1;
		} else {
			p->at++;
		}
	}
	f.header = (struct gck_ptx_range){ first, p->at };
	if (is_sign(p, p->at, ';'))
		p->at++;
	else if (read_body(p, &f))
		return -1;
	f.at = (struct gck_ptx_range){ first, p->at };
	more = gck_ptx_grow(x->functions, x->n_functions, sizeof *more, p->err);
	if (!more)
		return -1;
	x->functions = more;
	more[x->n_functions++] = f;
	return 0;
}

/* A declaration up to its semicolon, or a function. */
static int read_declaration(struct parser *p, uint32_t first)
{
	static const char *const functions[] = { ".entry", ".func", NULL };

	for (;;) {
		if (kind(p) == GCK_PTX_END || kind(p) == GCK_PTX_MARK)
			return fail_at(p, p->at, "a declaration has no semicolon");
		if (is_one_of(p->ptx, p->at, functions))
			return read_function(p, first);
		if (is_sign(p, p->at, ';'))
			return p->at++, 0;
		if (is_sign(p, p->at, '{') || is_sign(p, p->at, '[') || is_sign(p, p->at, '(')) {
			if (to_matching(p))
				return -1;
		} else {
			p->at++;
		}
	}
}

static int read_item(struct parser *p)
{
	static const char *const lines[] = { ".version", ".target", ".address_size", ".file",
					     ".loc", NULL };
	struct gck_ptx *x = p->ptx;
	uint32_t first = p->at;
	struct gck_ptx_range *more;

	if (kind(p) != GCK_PTX_WORD || x->text[x->tokens[first].begin] != '.')
		return fail_at(p, first, "a directive is expected");
	if (is_one_of(x, first, lines)) {
		to_line_end(p, first);
	} else if (gck_ptx_is(x, first, ".section")) {
		while (!is_sign(p, p->at, '{') && kind(p) != GCK_PTX_END)
			p->at++;
		if (to_matching(p))
			return -1;
	} else if (read_declaration(p, first)) {
		return -1;
	}
	more = gck_ptx_grow(x->items, x->n_items, sizeof *more, p->err);
	if (!more)
		return -1;
	x->items = more;
	more[x->n_items++] = (struct gck_ptx_range){ first, p->at };
	return 0;
}

void gck_ptx_free(struct gck_ptx *ptx)
{
	if (!ptx)
		return;
	free(ptx->text);
	free(ptx->tokens);
	free(ptx->statements);
	free(ptx->operands);
	free(ptx->functions);
	free(ptx->items);
	free(ptx);
}

struct gck_ptx *gck_ptx_read(const char *text, size_t size, struct gck_error *err)
{
	struct gck_ptx *ptx = calloc(1, sizeof *ptx);
	struct parser p = { .ptx = ptx, .err = err };

	if (ptx)
		ptx->text = malloc(size + 1);
	if (!ptx || !ptx->text) {
		gck_fail(err, ENOMEM, "no memory for %zu bytes of PTX", size);
		goto fail;
	}
	memcpy(ptx->text, text, size);
	ptx->text[size] = 0;
	ptx->size = size;
	ptx->tokens = gck_ptx_tokens(ptx->text, size, &ptx->n_tokens, err);
	if (!ptx->tokens)
		goto fail;
	while (kind(&p) != GCK_PTX_END)
		if (read_item(&p))
			goto fail;
	return ptx;
fail:
	gck_ptx_free(ptx);
	return NULL;
}

uint32_t gck_ptx_file(const struct gck_ptx *ptx, uint32_t n)
{
	for (size_t i = 0; i < ptx->n_items; i++) {
		uint32_t at = ptx->items[i].first;

		if (gck_ptx_is(ptx, at, ".file") && ptx->items[i].last > at + 2 &&
		    strtoul(ptx->text + ptx->tokens[at + 1].begin, NULL, 10) == n)
			return at + 2;
	}
	return 0;
}
