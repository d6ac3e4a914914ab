/* SPDX-License-Identifier: Apache-2.0
 * JSON documents with long tables (hex_table.h), parsed and written without copies of the
 * tables. */
#ifndef GCK_JSON_H
#define GCK_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/error.h"

/* Strings of this many characters are taken for tables (test/fuzz has short ones, too). */
#ifndef GCK_JSON_LONG
#define GCK_JSON_LONG (1u << 18)
#endif

/* Parse a text that ends with a NUL; the text is overwritten. EBADMSG: it is not JSON, and why. */
GCK_MUST_CHECK json_t *gck_json_parse(char *text, size_t size, struct gck_error *err);

/* Compact text, free() it; NULL without memory. */
char *gck_json_text(const json_t *value);

#endif
