/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/hex.h"

void gck_hex(const void *bytes, size_t n, char *text)
{
	static const char digits[] = GCK_HEX_DIGITS;
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[b[i] >> 4];
		text[2 * i + 1] = digits[b[i] & 15];
	}
	text[2 * n] = '\0';
}

bool gck_unhex_number(const char *text, unsigned digits, uint64_t *number)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < digits; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (unsigned)(c - 'a' + 10);
		else
			return false;
	}
	*number = value;
	return true;
}

bool gck_unhex(const char *text, size_t n, void *bytes)
{
	unsigned char *b = bytes;
	uint64_t byte;

	for (size_t i = 0; i < n; i++) {
		if (!gck_unhex_number(text + 2 * i, 2, &byte))
			return false;
		b[i] = (unsigned char)byte;
	}
	return true;
}
