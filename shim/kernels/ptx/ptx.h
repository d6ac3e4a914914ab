/* SPDX-License-Identifier: Apache-2.0
 * A module of PTX, as nvcc, NVRTC and Triton write it: its functions and their statements. All are
 * ranges of tokens; the text stays as it is, so that what is not changed is written back equal. */
#ifndef GCK_KERNELS_PTX_H
#define GCK_KERNELS_PTX_H

#include "shim/kernels/ptx/token.h"

enum gck_ptx_does {
	GCK_PTX_INSTRUCTION, /* [@[!]guard] op operands; */
	GCK_PTX_LABEL,       /* name: (the label is `op`) */
	GCK_PTX_DIRECTIVE,   /* .reg, .loc, .pragma, .branchtargets … (its first word is `op`) */
	GCK_PTX_OPEN,        /* { */
	GCK_PTX_CLOSE,       /* } */
	GCK_PTX_POINT,
};

/* Tokens from first to before last. */
struct gck_ptx_range {
	uint32_t first, last;
};

struct gck_ptx_statement {
	enum gck_ptx_does does;
	struct gck_ptx_range at;
	uint32_t depth;               /* braces around it, the function's own not counted */
	uint32_t op, guard;           /* tokens; guard 0: none */
	bool negated;                 /* the guard */
	uint32_t file, line;          /* of the last .loc; 0: none */
	uint32_t operand, n_operands; /* of gck_ptx.operands; cut at commas outside of brackets */
};

struct gck_ptx_function {
	struct gck_ptx_range at, header; /* the header is all before { or ; */
	uint32_t name;                   /* its token */
	bool is_entry, has_body;
	uint32_t statement, n_statements; /* of gck_ptx.statements, the outer braces left out */
};

struct gck_ptx {
	char *text;
	size_t size;
	struct gck_ptx_token *tokens;
	size_t n_tokens;
	struct gck_ptx_statement *statements;
	size_t n_statements;
	struct gck_ptx_range *operands;
	size_t n_operands;
	struct gck_ptx_function *functions;
	size_t n_functions;
	struct gck_ptx_range *items; /* of the module, functions too; they follow each other */
	size_t n_items;
};

/* Reads a copy of text. NULL and err, which names the line, if it is not PTX. */
struct gck_ptx *gck_ptx_read(const char *text, size_t size, struct gck_error *err) GCK_MUST_CHECK;
void gck_ptx_free(struct gck_ptx *ptx);

/* Whether a token is this text. */
bool gck_ptx_is(const struct gck_ptx *ptx, uint32_t token, const char *text);
/* Whether its text begins so. */
bool gck_ptx_begins(const struct gck_ptx *ptx, uint32_t token, const char *text);
/* Whether two tokens have the same text. */
bool gck_ptx_same(const struct gck_ptx *ptx, uint32_t a, uint32_t b);
/* Its text, for printf's "%.*s". */
#define GCK_PTX_TEXT(ptx, token) \
	(int)((ptx)->tokens[token].end - (ptx)->tokens[token].begin), \
		(ptx)->text + (ptx)->tokens[token].begin

/* The name of file n of the module's .file directives, with its quotes: a token; 0: none. */
uint32_t gck_ptx_file(const struct gck_ptx *ptx, uint32_t n);

#endif
