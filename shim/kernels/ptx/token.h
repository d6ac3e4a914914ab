/* SPDX-License-Identifier: Apache-2.0
 * The words of PTX. A token is a span of the text; what is between two tokens are blanks and
 * comments. The comment `// gpuckpt point [FILE:LINE]` is a token: it marks a point. */
#ifndef GCK_KERNELS_TOKEN_H
#define GCK_KERNELS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_PTX_MAX ((size_t)64 << 20) /* bytes of a text */
#define GCK_PTX_MARKER "// gpuckpt point"

enum gck_ptx_kind {
	GCK_PTX_WORD,   /* a name, an instruction with its modifiers, a directive, a number */
	GCK_PTX_STRING, /* with its quotes */
	GCK_PTX_SIGN,   /* one character */
	GCK_PTX_MARK,   /* a point's comment */
	GCK_PTX_END,    /* the last token, empty */
};

struct gck_ptx_token {
	enum gck_ptx_kind kind;
	uint32_t begin, end, line;
};

/* Cuts text into tokens: an array for free(), with GCK_PTX_END as its last; or NULL and err. Its
 * length, without the last, is stored in n. */
struct gck_ptx_token *gck_ptx_tokens(const char *text, size_t size, size_t *n,
				     struct gck_error *err) GCK_MUST_CHECK;

/* Makes room for one more element behind n of this size; the new array, or NULL and err: the old
 * one is then still there. */
void *gck_ptx_grow(void *array, size_t n, size_t size, struct gck_error *err) GCK_MUST_CHECK;

#endif
