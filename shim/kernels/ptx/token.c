/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/ptx/token.h"

struct reader {
	const char *text;
	size_t at, size;
	uint32_t line;
};

void *gck_ptx_grow(void *array, size_t n, size_t size, struct gck_error *err)
{
	void *more = array;

	/* The room is 16 elements, then twice as many each time that it is full. */
	if (!n || (n >= 16 && !(n & (n - 1)))) {
		more = reallocarray(array, n ? n * 2 : 16, size);
		if (!more)
			gck_fail(err, ENOMEM, "no memory for %zu elements of a PTX text", n);
	}
	return more;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%' || c == '.';
}

static bool starts(const struct reader *r, const char *what)
{
	size_t n = strlen(what);

	return r->size - r->at >= n && !memcmp(r->text + r->at, what, n);
}

static void skip_line(struct reader *r)
{
	while (r->at < r->size && r->text[r->at] != '\n')
		r->at++;
}

static int skip_comment(struct reader *r, struct gck_error *err)
{
	uint32_t line = r->line;

	for (r->at += 2; !starts(r, "*/"); r->at++) {
		if (r->at >= r->size)
			return gck_fail(err, EINVAL, "line %u: a comment that does not end", line);
		r->line += r->text[r->at] == '\n';
	}
	r->at += 2;
	return 0;
}

/* Goes to the next token. */
static int skip_blanks(struct reader *r, struct gck_error *err)
{
	for (; r->at < r->size; ) {
		char c = r->text[r->at];

		if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
			r->line += c == '\n';
			r->at++;
		} else if (starts(r, GCK_PTX_MARKER)) {
			return 0;
		} else if (starts(r, "//")) {
			skip_line(r);
		} else if (starts(r, "/*")) {
			if (skip_comment(r, err))
				return -1;
		} else {
			return 0;
		}
	}
	return 0;
}

static int read_string(struct reader *r, struct gck_error *err)
{
	for (r->at++; r->at < r->size && r->text[r->at] != '\n'; r->at++)
		if (r->text[r->at] == '\\' && r->at + 1 < r->size && r->text[r->at + 1] != '\n')
			r->at++;
		else if (r->text[r->at] == '"')
			return r->at++, 0;
	return gck_fail(err, EINVAL, "line %u: a string that does not end", r->line);
}

/* A word; `::` within one belongs to it (shared::cta). */
static void read_word(struct reader *r)
{
	while (r->at < r->size) {
		if (is_word(r->text[r->at]))
			r->at++;
		else if (starts(r, "::") && r->at + 2 < r->size && is_word(r->text[r->at + 2]))
			r->at += 2;
		else
			return;
	}
}

static int read_token(struct reader *r, struct gck_ptx_token *token, struct gck_error *err)
{
	char c = r->at < r->size ? r->text[r->at] : 0;

	*token = (struct gck_ptx_token){ GCK_PTX_SIGN, r->at, 0, r->line };
	if (r->at >= r->size) {
		token->kind = GCK_PTX_END;
	} else if (starts(r, GCK_PTX_MARKER)) {
		token->kind = GCK_PTX_MARK;
		skip_line(r);
	} else if (c == '"') {
		token->kind = GCK_PTX_STRING;
		if (read_string(r, err))
			return -1;
	} else if (is_word(c)) {
		token->kind = GCK_PTX_WORD;
		read_word(r);
	} else if (c && strchr("@!;:,{}()[]<>+-|=*/&~^?", c)) {
		r->at++;
	} else {
		return gck_fail(err, EINVAL, "line %u: byte 0x%02x is not PTX", r->line,
				(unsigned char)c);
	}
	token->end = r->at;
	return 0;
}

struct gck_ptx_token *gck_ptx_tokens(const char *text, size_t size, size_t *n,
				     struct gck_error *err)
{
	struct reader r = { text, 0, size, 1 };
	struct gck_ptx_token *tokens = NULL, *more;
	size_t count = 0;

	if (size > GCK_PTX_MAX) {
		gck_fail(err, EFBIG, "a PTX text of %zu bytes: at most %zu are read", size,
			 GCK_PTX_MAX);
		return NULL;
	}
	for (;;) {
		more = gck_ptx_grow(tokens, count, sizeof *tokens, err);
		if (!more)
			break;
		tokens = more;
		if (skip_blanks(&r, err) || read_token(&r, &tokens[count], err))
			break;
		if (tokens[count].kind == GCK_PTX_END) {
			*n = count;
			return tokens;
		}
		count++;
	}
	free(tokens);
	return NULL;
}
