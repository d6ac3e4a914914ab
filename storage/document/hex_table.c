/* SPDX-License-Identifier: Apache-2.0
 * Tables of hex digits, two digits a byte. */
#include "storage/document/hex_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"

/* ---- packed hex ----------------------------------------------------------------------------- */

size_t gck_packed_hex_size(size_t digits)
{
	return GCK_PACKED_HEX_HEAD + (digits + 1) / 2;
}

static void write_head(unsigned char *value, size_t digits)
{
	value[0] = 0;
	value[1] = digits % 2;
}

bool gck_packed_hex_is(const json_t *value)
{
	return json_string_length(value) > GCK_PACKED_HEX_HEAD && !*json_string_value(value);
}

size_t gck_packed_hex_digits(const json_t *value)
{
	return 2 * (json_string_length(value) - GCK_PACKED_HEX_HEAD) -
	       (size_t)json_string_value(value)[1];
}

/* The head comes last, where the text's first digits may have been. */
bool gck_packed_hex_pack(const char *text, size_t digits, unsigned char *value)
{
	unsigned char *bytes = value + GCK_PACKED_HEX_HEAD;
	const char last[] = { digits ? text[digits - 1] : '0', '0' };

	if (!gck_unhex(text, digits / 2, bytes) || (digits % 2 && !gck_unhex(last, 1,
									     bytes + digits / 2)))
		return false;
	write_head(value, digits);
	return true;
}

void gck_packed_hex_text(const unsigned char *value, size_t digits, char *text)
{
	const unsigned char *bytes = value + GCK_PACKED_HEX_HEAD;
	char last[3];

	gck_hex(bytes, digits / 2, text);
	if (digits % 2) {
		gck_hex(bytes + digits / 2, 1, last);
		text[digits - 1] = last[0];
	}
	text[digits] = '\0';
}

/* ---- tables --------------------------------------------------------------------------------- */

#define ROOM_MIN 64u
#define KEY 8 /* bytes that rows are sorted by */

static void set_digit(unsigned char *v, size_t i, unsigned digit)
{
	unsigned char *both = &v[GCK_PACKED_HEX_HEAD + i / 2];

	*both = (unsigned char)(i % 2 ? (*both & 0xf0) | digit : (*both & 15) | digit << 4);
}

uint64_t gck_hex_table_get(const struct gck_hex_table *r, size_t row, unsigned column,
			   unsigned digits)
{
	size_t first = row * r->width + column;
	const unsigned char *at = r->v + GCK_PACKED_HEX_HEAD + first / 2;
	uint64_t number = 0;

	if (first % 2) {
		number = *at++ & 15;
		digits--;
	}
	for (; digits > 1; digits -= 2)
		number = number << 8 | *at++;
	return digits ? number << 4 | *at >> 4 : number;
}

void gck_hex_table_set(struct gck_hex_table *r, size_t row, unsigned column, unsigned digits,
		       uint64_t number)
{
	size_t first = row * r->width + column;

	for (size_t i = first + digits; i-- > first; number >>= 4)
		set_digit(r->v, i, number & 15);
}

int gck_hex_table_add(struct gck_hex_table *r, struct gck_error *err)
{
	if (r->n == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : ROOM_MIN;
		unsigned char *v = realloc(r->v, gck_packed_hex_size(capacity * r->width));

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a table of %zu rows", capacity);
		r->v = v;
		r->capacity = capacity;
	}
	for (unsigned i = 0; i < r->width; i++)
		set_digit(r->v, r->n * r->width + i, 0);
	r->n++;
	return 0;
}

void gck_hex_table_clear(struct gck_hex_table *r)
{
	free(r->v);
	*r = (struct gck_hex_table){ .width = r->width };
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, KEY);
}

void gck_hex_table_sort(struct gck_hex_table *r)
{
	if (r->n)
		qsort(r->v + GCK_PACKED_HEX_HEAD, r->n, r->width / 2, by_key);
}

json_t *gck_hex_table_json(const struct gck_hex_table *r)
{
	size_t digits = r->n * r->width;

	if (!digits)
		return json_string("");
	if (digits % 2)
		set_digit(r->v, digits, 0);
	write_head(r->v, digits);
	return json_stringn_nocheck((const char *)r->v, gck_packed_hex_size(digits));
}

static size_t digits_of(const json_t *value)
{
	return gck_packed_hex_is(value) ? gck_packed_hex_digits(value) : json_string_length(value);
}

size_t gck_hex_table_count(unsigned width, const json_t *value)
{
	return digits_of(value) / width;
}

int gck_hex_table_load(struct gck_hex_table *r, unsigned width, const json_t *value,
		       struct gck_error *err)
{
	const char *text = json_string_value(value);
	size_t digits = digits_of(value);
	unsigned char *v;

	if (!text || digits % width)
		return gck_fail(err, EBADMSG, "not rows of %u hexadecimal digits", width);
	v = malloc(gck_packed_hex_size(digits));
	if (!v)
		return gck_fail(err, ENOMEM, "no memory for %zu hexadecimal digits", digits);
	if (gck_packed_hex_is(value)) {
		memcpy(v, text, json_string_length(value));
	} else if (!gck_packed_hex_pack(text, digits, v)) {
		free(v);
		return gck_fail(err, EBADMSG, "not hexadecimal digits");
	}
	*r = (struct gck_hex_table){ width, digits / width, digits / width, v };
	return 0;
}
