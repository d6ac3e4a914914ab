/* SPDX-License-Identifier: Apache-2.0
 * A long table of a manifest: rows of hex digits, as many in each, which are one text in JSON
 * (doc/store.md). In memory there are two digits in a byte, so that a large image needs little. */
#ifndef GCK_HEX_TABLE_H
#define GCK_HEX_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct gck_hex_table {
	unsigned width;   /* digits of each; set before the first is added */
	size_t n, room;
	unsigned char *v; /* digits.h */
};

/* A row's number of so many digits, 1 to 16, from a column on. */
uint64_t gck_hex_table_get(const struct gck_hex_table *r, size_t row, unsigned column, unsigned digits);
void gck_hex_table_set(struct gck_hex_table *r, size_t row, unsigned column, unsigned digits, uint64_t number);

/* Append a row of zeros. */
int gck_hex_table_add(struct gck_hex_table *r, struct gck_error *err);
void gck_hex_table_clear(struct gck_hex_table *r);

/* Sort by the numbers in the first 16 digits; rows of whole bytes. */
void gck_hex_table_sort(struct gck_hex_table *r);

/* As a JSON value for gck_json_text; NULL without memory. And from one of gck_json_parse's, or from any
 * text; EBADMSG: it has other rows. How many it has that are whole. */
json_t *gck_hex_table_json(const struct gck_hex_table *r);
int gck_hex_table_load(struct gck_hex_table *r, unsigned width, const json_t *value, struct gck_error *err);
size_t gck_hex_table_count(unsigned width, const json_t *value);

#endif
