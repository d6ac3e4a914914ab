/* SPDX-License-Identifier: Apache-2.0
 * Hex digits, two a byte. */
#include "storage/digits.h"

#include <stdint.h>
#include <string.h>

size_t gck_digits_size(size_t digits)
{
	return GCK_DIGITS_HEAD + (digits + 1) / 2;
}

void gck_digits_head(unsigned char *value, size_t digits)
{
	value[0] = 0;
	value[1] = digits % 2;
}

bool gck_digits_are(const json_t *value)
{
	return json_string_length(value) > GCK_DIGITS_HEAD && !*json_string_value(value);
}

size_t gck_digits_count(const json_t *value)
{
	return 2 * (json_string_length(value) - GCK_DIGITS_HEAD) - (size_t)json_string_value(value)[1];
}

/* 16: none. */
static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

/* The head comes last, where the text's first digits may have been. */
bool gck_digits_pack(const char *text, size_t digits, unsigned char *value)
{
	for (size_t i = 0; i < digits; i += 2) {
		unsigned high = digit(text[i]), low = i + 1 < digits ? digit(text[i + 1]) : 0;

		if (high > 15 || low > 15)
			return false;
		value[GCK_DIGITS_HEAD + i / 2] = (unsigned char)(high << 4 | low);
	}
	gck_digits_head(value, digits);
	return true;
}

void gck_digits_text(const unsigned char *value, size_t digits, char *text)
{
	for (size_t i = 0; i < digits; i++) {
		unsigned char both = value[GCK_DIGITS_HEAD + i / 2];

		text[i] = "0123456789abcdef"[i % 2 ? both & 15 : both >> 4];
	}
}
