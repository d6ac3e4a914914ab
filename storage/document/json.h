/* SPDX-License-Identifier: Apache-2.0
 * Documents that have long tables (rows.h), parsed and made without copies of these. */
#ifndef GCK_JSON_H
#define GCK_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/error.h"

/* Strings of so many characters are taken for tables (test/fuzz has short ones, too). */
#ifndef GCK_JSON_LONG
#define GCK_JSON_LONG (1u << 18)
#endif

/* JSON from a text with a NUL behind it, which is overwritten. EBADMSG: it is none, and why. */
json_t *gck_json_parse(char *text, size_t size, struct gck_error *err);

/* Compact text, free() it; NULL without memory. */
char *gck_json_text(const json_t *value);

#endif
