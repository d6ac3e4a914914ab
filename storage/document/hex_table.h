/* SPDX-License-Identifier: Apache-2.0
 * A long table of a manifest: rows of equally many hex digits, which are one text in JSON
 * (doc/store.md). In memory a byte holds two digits, so that a large image needs little. */
#ifndef GCK_HEX_TABLE_H
#define GCK_HEX_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* ---- packed hex ----------------------------------------------------------------------------- */

/* A long text of hex digits as a JSON value of half its length: a string that holds a head and one
 * byte for two digits. It begins with a NUL, which no parsed text does (json.c). */
#define GCK_PACKED_HEX_HEAD 2 /* a NUL; whether the last byte has one digit only */

/* The size of such a value in bytes. */
size_t gck_packed_hex_size(size_t digits);

/* Is a value packed hex, and how many digits does it have? */
bool gck_packed_hex_is(const json_t *value);
size_t gck_packed_hex_digits(const json_t *value);

/* Pack a text, whose second byte may lie where the value's head ends. false: it has other
 * characters than hex digits. gck_packed_hex_text unpacks it and adds a NUL. */
bool gck_packed_hex_pack(const char *text, size_t digits, unsigned char *value);
void gck_packed_hex_text(const unsigned char *value, size_t digits, char *text);

/* ---- tables --------------------------------------------------------------------------------- */

struct gck_hex_table {
	unsigned width;     /* digits of a row; set before the first row is added */
	size_t n, capacity; /* rows */
	unsigned char *v;   /* two digits a byte */
};

/* The number in a row's `digits` digits (1 to 16) from a column on. */
uint64_t gck_hex_table_get(const struct gck_hex_table *t, size_t row, unsigned column,
			   unsigned digits);
void gck_hex_table_set(struct gck_hex_table *t, size_t row, unsigned column, unsigned digits,
		       uint64_t number);

/* Append a row of zeros. */
GCK_MUST_CHECK int gck_hex_table_add(struct gck_hex_table *t, struct gck_error *err);
void gck_hex_table_clear(struct gck_hex_table *t);

/* Sort by the numbers in the first 16 digits. The width must be even. */
void gck_hex_table_sort(struct gck_hex_table *t);

/* The table as a JSON value for gck_json_text; NULL without memory. */
json_t *gck_hex_table_json(const struct gck_hex_table *t);

/* Load a table from a value of gck_json_parse, or from any text. EBADMSG: the value does not
 * consist of such rows. */
GCK_MUST_CHECK int gck_hex_table_load(struct gck_hex_table *t, unsigned width, const json_t *value,
				      struct gck_error *err);

/* The number of whole rows in such a value. */
size_t gck_hex_table_count(unsigned width, const json_t *value);

#endif
