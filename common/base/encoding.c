/* SPDX-License-Identifier: Apache-2.0
 * Base64, hexadecimal digits, UTF-8. */
#include "common/base/encoding.h"

#include <stdlib.h>
#include <string.h>

/* ---- base64 --------------------------------------------------------------------------------- */

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *gck_base64_text(const void *bytes, size_t size)
{
	const unsigned char *in = bytes;
	char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		size_t n = size - i < 3 ? size - i : 3;
		uint32_t word = (uint32_t)in[i] << 16 | (n > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
				(n > 2 ? in[i + 2] : 0);

		*to++ = base64_digits[word >> 18];
		*to++ = base64_digits[word >> 12 & 63];
		*to++ = n > 1 ? base64_digits[word >> 6 & 63] : '=';
		*to++ = n > 2 ? base64_digits[word & 63] : '=';
	}
	*to = '\0';
	return text;
}

static int value_of(char c)
{
	const char *at = c ? strchr(base64_digits, c) : NULL;

	return at ? (int)(at - base64_digits) : -1;
}

/* Decode four characters. Returns the number of bytes, or -1. */
static int group(const char *text, unsigned char *out)
{
	int n = text[3] != '=' ? 3 : text[2] != '=' ? 2 : 1;
	uint32_t word = 0;

	for (int i = 0; i < 4; i++) {
		int v = i <= n ? value_of(text[i]) : text[i] == '=' ? 0 : -1;

		if (v < 0)
			return -1;
		word = word << 6 | (uint32_t)v;
	}
	for (int i = 0; i < n; i++)
		out[i] = (unsigned char)(word >> (16 - 8 * i));
	return n;
}

long gck_base64_bytes(const char *text, size_t length, void *bytes)
{
	unsigned char *out = bytes;

	if (length % 4)
		return -1;
	for (size_t i = 0; i < length; i += 4) {
		unsigned char three[3];
		int n = group(text + i, three);

		if (n < 0 || (n < 3 && i + 4 < length))
			return -1;
		memcpy(out, three, (size_t)n);
		out += n;
	}
	return out - (unsigned char *)bytes;
}

/* ---- hexadecimal digits --------------------------------------------------------------------- */

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

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

/* The length of a character by its first byte; 0: no character begins with this byte. */
static size_t length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Is a character neither overlong, nor a surrogate, nor above U+10FFFF? */
static bool is_allowed(const unsigned char *p)
{
	switch (p[0]) {
	case 0xe0:
		return p[1] >= 0xa0;
	case 0xed:
		return p[1] < 0xa0;
	case 0xf0:
		return p[1] >= 0x90;
	case 0xf4:
		return p[1] < 0x90;
	default:
		return true;
	}
}

void gck_utf8_sanitize(char *text)
{
	unsigned char *p = (unsigned char *)text;

	while (*p) {
		size_t n = length(*p), there = 1;

		while (there < n && (p[there] & 0xc0) == 0x80)
			there++;
		if (n && there == n && is_allowed(p))
			p += n;
		else if (there < n && !p[there])
			*p = '\0';
		else
			*p++ = '?';
	}
}
