/* SPDX-License-Identifier: Apache-2.0
 * Hex digits, two a byte. */
#include "storage/document/packed_hex.h"

#include "common/base/hex.h"

size_t gck_packed_hex_size(size_t digits)
{
	return GCK_PACKED_HEX_HEAD + (digits + 1) / 2;
}

void gck_packed_hex_head(unsigned char *value, size_t digits)
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
	return 2 * (json_string_length(value) - GCK_PACKED_HEX_HEAD) - (size_t)json_string_value(value)[1];
}

/* The head comes last, where the text's first digits may have been. */
bool gck_packed_hex_pack(const char *text, size_t digits, unsigned char *value)
{
	unsigned char *bytes = value + GCK_PACKED_HEX_HEAD;
	const char last[] = { digits ? text[digits - 1] : '0', '0' };

	if (!gck_unhex(text, digits / 2, bytes) || (digits % 2 && !gck_unhex(last, 1, bytes + digits / 2)))
		return false;
	gck_packed_hex_head(value, digits);
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
